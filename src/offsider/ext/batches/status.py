"""The status of a batch, from its stored fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from offsider.storage.hashes import json_object, json_value, whole

#: Jids that a status lists at most; `Batch.failed` and `Batch.died` return all.
MAX_JIDS = 1_000


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
