"""Metrics and the ``offsider doctor`` check of batches."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from offsider.core.wording import counted, listed
from offsider.ext.batches import store
from offsider.inspector.finding import Finding, ok, warn
from offsider.prometheus import Family
from offsider.storage import clocks
from offsider.storage.hashes import whole

if TYPE_CHECKING:
    from offsider.config.installation import Installation

#: A block that stores jobs for longer was probably left open by a process that died.
OLD_SECONDS = 3_600.0
MANY = 100_000
#: The pages that are examined; the first have batches with dead jobs, and unfinished ones.
PAGES = 20


def families(here: Installation) -> list[Family]:
    """Return the number of batches."""
    return [Family.of("offsider_batches", "gauge", "Batches that have not expired.", store.count(here.redis))]


def check_batches(here: Installation) -> Iterator[Finding]:
    """Report growth without bound, and batches whose block was left open."""
    count = store.count(here.redis)
    if count > MANY:
        yield warn(
            "batches",
            f"{counted(count, 'batch')} are stored",
            cause="each uses memory for a day after it succeeds, otherwise for 30 days by default",
            action="put more jobs into one batch, or set a shorter ttl and linger: Batches(ttl=..., linger=...)",
        )
    before_ms = (clocks.look(here.redis)[0] - OLD_SECONDS) * 1000
    left = [
        bid
        for bids in islice(store.pages(here.redis), PAGES)
        for bid, (fields, (_, _, _, blocks, _, _)) in zip(bids, store.sizes(here.redis, bids), strict=True)
        if blocks and fields and (whole(fields.get("opened_at")) or 0) < before_ms
    ]
    if left:
        yield warn(
            "batches",
            f"{counted(len(left), 'batch')} opened more than an hour ago by a block that has not ended: "
            f"{listed(left[:5])}",
            cause="a process died in a block outside of jobs: the callbacks of the batch are never pushed",
            action="push the missing jobs, then call Batch(bid).close_blocks(); or delete the batch",
        )
    if count <= MANY and not left:
        yield ok("batches", counted(count, "batch"))
