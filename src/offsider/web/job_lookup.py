"""Find a stored job by its location and its key in an address.

A job of a set is found by ``score|jid|digest``, or by ``score|jid`` like in Sidekiq's pages. A job of a queue is found
by ``position|jid``: workers take jobs from the end where positions start, so it is at its old position or somewhat
nearer to that end. If it is not there, the queue is searched by its id, as long as a page may take. A job in a list of
an extension, such as a held job, is found in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from offsider.config.installation import Installation
from offsider.inspector import (
    Chunk,
    DeadSet,
    Found,
    HeldList,
    JobFilter,
    JobRecord,
    JobSet,
    Quarantine,
    QuarantinedJob,
    Queue,
    RetrySet,
    ScheduledSet,
    SetEntry,
    Work,
    WorkSet,
    search_everywhere,
)

SETS: dict[str, type[JobSet]] = {kind.name: kind for kind in (RetrySet, ScheduledSet, DeadSet)}
QUEUE = "queue:"
HELD = "held:"
BUSY = "busy"
QUARANTINE = "quarantine"

#: Maximum distance from the old position before the whole queue is searched.
_NEAR = 100
_BUDGET_MS = 30


@dataclass(frozen=True)
class JobOfSet:
    """A job in a set."""

    where: str
    record: SetEntry

    @property
    def key(self) -> str:
        return self.record.key


@dataclass(frozen=True)
class QueuedJob:
    """A job in a queue."""

    queue: Queue
    record: JobRecord
    position: int | None

    @property
    def where(self) -> str:
        return QUEUE + self.queue.name

    @property
    def key(self) -> str:
        return queue_key(self.record, self.position)


@dataclass(frozen=True)
class RunningJob:
    """A running job."""

    work: Work
    where: str = BUSY

    @property
    def record(self) -> JobRecord:
        return self.work.record

    @property
    def key(self) -> str:
        return self.work.record.jid


@dataclass(frozen=True)
class JobPutAside:
    """A job in quarantine."""

    job: QuarantinedJob
    where: str = QUARANTINE

    @property
    def record(self) -> JobRecord:
        return self.job.record

    @property
    def key(self) -> str:
        return self.job.id


@dataclass(frozen=True)
class HeldJob:
    """A job in a list of an extension."""

    held: HeldList
    record: JobRecord

    @property
    def where(self) -> str:
        return HELD + self.held.key

    @property
    def key(self) -> str:
        return queue_key(self.record, self.record.position)


Place: TypeAlias = JobOfSet | QueuedJob | HeldJob | RunningJob | JobPutAside


def queue_key(record: JobRecord, position: int | None) -> str:
    """Return the key of a job in a queue; without a position, its id alone."""
    return record.key_part if position is None else f"{position}|{record.key_part}"


def jid_of(where: str, key: str) -> str:
    """Return the job's id in a key, to search for a job that moved."""
    name = key.partition("|")[2] or key
    return name.rpartition("|")[0] or name if where in SETS else name


def find(here: Installation, where: str, key: str) -> Place | None:
    """Return the job at a location and key; None if it is not there, or the location is unknown."""
    if where in SETS:
        entry = SETS[where](here).entry(key)
        return None if entry is None else JobOfSet(where, entry)
    if where.startswith(QUEUE):
        return find_queued(Queue(where.removeprefix(QUEUE), here), key)
    if where.startswith(HELD):
        return find_held(HeldList(where.removeprefix(HELD), here), key)
    if where == BUSY:
        work = WorkSet(here).find_work(key)
        return None if work is None else RunningJob(work)
    if where == QUARANTINE:
        job = Quarantine(here).find(key)
        return None if job is None else JobPutAside(job)
    return None


def find_by_jid(here: Installation, jid: str, budget_ms: float) -> tuple[Place | None, Chunk[Found]]:
    """Return a job by its id, wherever it is, and the step of the search for it."""
    chunk = search_everywhere(jid, budget_ms=budget_ms, config=here)
    for found in chunk.entries:
        if found.record.jid == jid:
            return find(here, found.where, found.key), chunk
    return None, chunk


def find_held(held: HeldList, key: str) -> HeldJob | None:
    """Return a job in a list of an extension by its key."""
    start, jid = _position_and_jid(key)
    there = [] if start is None else held.page(start, 1)
    if not any(record.key_part == jid for record in there):
        there = held.scan(JobFilter(text=jid), budget_ms=_BUDGET_MS).entries if jid else []
    return next((HeldJob(held, record) for record in there if record.key_part == jid), None)


def _position_and_jid(key: str) -> tuple[int | None, str]:
    position, bar, jid = key.partition("|")
    if not bar:
        position, jid = "", key
    return (int(position[:9]) if position.isascii() and position.isdigit() else None), jid


def find_queued(queue: Queue, key: str) -> QueuedJob | None:
    """Return a job in a queue by its key."""
    start, jid = _position_and_jid(key)
    return next((found for found in _candidates(queue, start, jid) if found.record.key_part == jid), None)


def _candidates(queue: Queue, start: int | None, jid: str) -> Iterator[QueuedJob]:
    if start is not None:
        # First at the old position, alone because jobs may be large; then at the positions before it.
        yield from _slice(queue, start, 1)
        nearest = max(0, start - _NEAR)
        yield from reversed([*_slice(queue, nearest, start - nearest)])
    if jid:
        chunk = queue.scan(JobFilter(text=jid), budget_ms=_BUDGET_MS)
        yield from (QueuedJob(queue, record, record.position) for record in chunk.entries)


def _slice(queue: Queue, start: int, count: int) -> Iterator[QueuedJob]:
    if count:
        for offset, record in enumerate(queue.page(start, count)):
            yield QueuedJob(queue, record, start + offset)
