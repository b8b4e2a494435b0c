"""Finds stuck batches: all members have ended, and dead ones keep the callback of the success from being pushed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from offsider.config.web_tab import WebLink
from offsider.core.wording import counted, listed
from offsider.ext.batches import store
from offsider.ext.batches.status import BatchSet
from offsider.inspector.finding import Finding, warn

if TYPE_CHECKING:
    from offsider.config.installation import Installation

#: Batches that are read, those with dead jobs first; and stuck ones that are shown, the last of them.
MAX_READ, MAX_STUCK = 100, 10
MAX_NAMED = 3


def find_batches(server: Installation) -> Iterator[Finding]:
    """Find batches that only dead members keep from succeeding."""
    statuses = BatchSet(server).page(0, MAX_READ)
    dead = [each for each in statuses if each.death_at is not None and not each.success and each.invalidated_at is None]
    for status in sorted(dead, key=lambda each: -(each.death_at or 0))[:MAX_STUCK]:
        # Members that wait or will be retried are pending, too.
        members = [*islice(store.every(server.redis, status.bid, "-died"), status.pending)]
        if not members or len(members) < status.pending:
            continue
        # Not the description, which may quote arguments: alerts and the event log show findings, too.
        yield warn(
            "batch",
            f"{status.bid}: {status.done}/{status.total} done, {counted(len(members), 'member')} dead",
            cause="the batch succeeds when its dead members have run successfully",
            actions=(f"retry its dead members, or delete it: offsider batches show {status.bid}",),
            kind="stuck",
            subject=status.bid,
            details=(f"dead: {listed((f'{about} ({jid})' for jid, about in members), MAX_NAMED)}",),
            numbers={"done": status.done, "total": status.total, "dead": len(members)},
            since=(status.death_at or 0) / 1000,
            harm=1 / 60,
            buttons=(WebLink("Open", f"/batches/{status.bid}"),),
        )
