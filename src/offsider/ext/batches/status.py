"""The status of one batch and of all batches of a server, for metrics and the doctor too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, cast

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.wording import counted, listed
from offsider.ext.batches import store
from offsider.inspector.finding import Finding, warn
from offsider.inspector.scan import Chunk, scan
from offsider.prometheus import Family
from offsider.storage import clocks
from offsider.storage.hashes import json_object, json_value, whole

#: Jids that a status lists at most; `Batch.failed` and `Batch.died` return all.
MAX_JIDS = 1_000
#: A block that stores jobs for longer was probably left open by a process that died.
OLD_SECONDS = 3_600.0
#: The doctor warns of more batches.
MANY = 100_000
#: The pages that the doctor examines; the first have batches with dead jobs, and unfinished ones.
PAGES = 20


@dataclass(frozen=True)
class Callback:
    """A callback of a batch.

    Attributes:
        event: ``complete``, ``success`` or ``death``.
        job: class of the callback job.
        jid: its id.
        queue: its queue.
        pushed_at: when it was pushed, in epoch milliseconds; None before.
    """

    event: str
    job: str
    jid: str
    queue: str
    pushed_at: int | None


@dataclass(frozen=True)
class Status:
    """The status of a batch. Times are epoch milliseconds, as in Sidekiq; None before the event.

    Attributes:
        bid, description, tags, data, parent_bid: as given; ``parent_bid`` is empty without a parent.
        total: number of members so far.
        pending: members that have not succeeded.
        failures: members that failed and have not succeeded since, with dead ones.
        failed_jids, dead_jids: up to 1,000 members that will be retried, and that died or were removed.
        open_blocks: blocks that are storing members: until they end, there are no callbacks.
        pending_kids: children that have not succeeded.
        created_at, opened_at, complete_at, success_at, death_at, invalidated_at: times.
        callbacks: the callbacks.
        unreadable: names of stored fields that another program has spoilt; each counts as absent.
    """

    bid: str
    description: str
    total: int
    pending: int
    failures: int
    failed_jids: Sequence[str]
    dead_jids: Sequence[str]
    open_blocks: int
    pending_kids: int
    created_at: int
    opened_at: int
    complete_at: int | None
    success_at: int | None
    death_at: int | None
    invalidated_at: int | None
    parent_bid: str
    tags: Sequence[str]
    data: Mapping[str, Any]
    callbacks: Sequence[Callback]
    unreadable: Sequence[str] = ()

    @property
    def complete(self) -> bool:
        """Whether each member has run at least once, or died."""
        return self.complete_at is not None

    @property
    def success(self) -> bool:
        """Whether all members and children have succeeded."""
        return self.success_at is not None

    @property
    def done(self) -> int:
        """Number of members that have succeeded."""
        return max(0, self.total - self.pending)

    def as_dict(self) -> dict[str, Any]:
        """Return the status as JSON values, with ``is_complete`` for pollers that expect Sidekiq's keys."""
        return {**asdict(self), "is_complete": self.complete}


def make_status(
    bid: str, fields: Mapping[str, str], sizes: Sequence[int], failed: Sequence[str] = (), dead: Sequence[str] = ()
) -> Status:
    """Build a status from the stored fields and the sizes that `store.sizes` returns."""
    unreadable: list[str] = []

    def at(name: str) -> int | None:
        number = whole(fields.get(name))
        if number is None and name in fields:
            unreadable.append(name)
        return number

    pending, failures, died, blocks, kids, _ = sizes
    return Status(
        bid=bid,
        description=fields.get("description", ""),
        total=at("total") or 0,
        pending=pending,
        failures=failures + died,
        failed_jids=failed,
        dead_jids=dead,
        open_blocks=blocks,
        pending_kids=kids,
        created_at=at("created_at") or 0,
        opened_at=at("opened_at") or 0,
        complete_at=at("complete_at"),
        success_at=at("success_at"),
        death_at=at("death_at"),
        invalidated_at=at("invalidated_at"),
        parent_bid=fields.get("parent", ""),
        tags=stored_tags(fields.get("tags", "")),
        data=json_object(fields.get("data", "").encode()),
        callbacks=tuple(_callbacks(fields, unreadable)),
        unreadable=tuple(unreadable),
    )


def stored_tags(stored: str | bytes) -> tuple[str, ...]:
    """Return the tags of a batch from their stored form; none if it is malformed."""
    found = json_value(stored)
    labels = cast("list[object]", found) if isinstance(found, list) else []
    return tuple(label for label in labels if isinstance(label, str))


def _callbacks(fields: Mapping[str, str], unreadable: list[str]) -> list[Callback]:
    found: list[Callback] = []
    for event in ("complete", "success", "death"):
        stored = json_value(fields.get(f"on_{event}", "[]"))
        calls = cast("list[dict[str, object]]", stored if isinstance(stored, list) else [None])
        for call in calls:
            try:
                name, jid, queue = (str(call[part]) for part in ("name", "jid", "queue"))
            except (KeyError, TypeError, RecursionError):
                unreadable.append(f"on_{event}")
                continue
            found.append(Callback(event, name, jid, queue, whole(fields.get(f"pushed:{jid}"))))
    return found


class BatchSet:
    """The batches of a server: first those with dead jobs, then unfinished, then finished ones.

    ::

        for status in BatchSet():
            print(status.bid, status.description, status.pending)
        for status in BatchSet().tagged("nightly"):
            print(status.bid, status.tags)

    In each group, the batch that expires last is the first. The statuses have no ``failed_jids`` and ``dead_jids``;
    `Batch.status` has them.

    Args:
        config: selects the server; default: the configuration of this process.

    Every method raises RedisFailure if the server is unreachable.
    """

    def __init__(self, config: Config | Installation | None = None) -> None:
        self._redis = Installation.of(config).redis

    def __len__(self) -> int:
        """Return the number of batches that have not expired."""
        return store.count(self._redis)

    def __iter__(self) -> Iterator[Status]:
        """Yield the status of each batch, and read them in pages."""
        for bids in store.pages(self._redis):
            yield from self.read(bids)

    def page(self, start: int = 0, count: int = 100) -> list[Status]:
        """Return the statuses of up to ``count`` batches, without the first ``start`` ones."""
        return self.read(store.page(self._redis, start, count))

    def read(self, bids: Sequence[str]) -> list[Status]:
        """Return the statuses of batches, without those that do not exist or have expired."""
        found = zip(bids, store.sizes(self._redis, bids), strict=True) if bids else ()
        return [make_status(bid, fields, sizes) for bid, (fields, sizes) in found if fields]

    def tagged(self, tag: str) -> Iterator[Status]:
        """Yield all batches with a tag, in no order.

        This scans all batches, about 30,000 per second. Use `scan` for a time limit.
        """
        seen: set[str] = set()
        cursor = ""
        while True:
            chunk = self.scan(tag, cursor)
            for status in chunk.entries:
                if status.bid not in seen:
                    seen.add(status.bid)
                    yield status
            if chunk.complete:
                return
            cursor = chunk.cursor

    def scan(self, tag: str, cursor: str = "", budget_ms: float = 100, most: int | None = None) -> Chunk[Status]:
        """Scan for batches with a tag within a time budget, in no order; a batch may be returned twice.

        Args:
            tag: one of the tags of a batch, compared literally.
            cursor: cursor of the previous chunk; empty or unknown: start from the beginning.
            budget_ms: approximate time limit in milliseconds.
            most: approximate maximum number of matches.
        """

        def read(position: str, step: int) -> tuple[str, int, Iterable[Status]]:
            position, found = store.scan_tags(self._redis, position, step)
            return position, max(step, len(found)), self.read([bid for bid, tags in found if tag in stored_tags(tags)])

        return scan(read, len(self), cursor, budget_ms, most)


def families(server: Installation) -> list[Family]:
    """Return the number of batches."""
    return [Family.of("offsider_batches", "gauge", "Batches that have not expired.", store.count(server.redis))]


def check_batches(server: Installation) -> Iterator[Finding]:
    """Report growth without bound, and batches whose block was left open."""
    count = store.count(server.redis)
    if count > MANY:
        yield warn(
            "batches",
            f"{counted(count, 'batch')} are stored",
            cause="each uses memory for a day after it succeeds, otherwise for 30 days by default",
            actions=("put more jobs into one batch, or set a shorter ttl and linger: Batches(ttl=..., linger=...)",),
            numbers={"batches": count},
        )
    before_ms = (clocks.look(server.redis)[0] - OLD_SECONDS) * 1000
    left = {
        bid: whole(fields.get("opened_at")) or 0
        for bids in islice(store.pages(server.redis), PAGES)
        for bid, (fields, (_, _, _, blocks, _, _)) in zip(bids, store.sizes(server.redis, bids), strict=True)
        if blocks and fields and (whole(fields.get("opened_at")) or 0) < before_ms
    }
    if left:
        yield warn(
            "batches",
            f"{counted(len(left), 'batch')} opened more than an hour ago by a block that has not ended: {listed(left)}",
            cause="a process died in a block outside of jobs: the callbacks of the batch are never pushed",
            actions=("push the missing jobs, then call Batch(bid).close_blocks(); or delete the batch",),
            subject=next(iter(left)),
            numbers={"batches": len(left)},
            since=min(left.values()) / 1000 or None,
        )
