"""Where stored jobs lie, and how the key in an address finds one again.

A job of a set is found by ``score|jid|digest``, or by ``score|jid`` as Sidekiq's pages find it. A job of a queue is
found by ``position|jid``: workers take jobs from the end where positions begin, so it lies at its old position or
somewhat nearer. What has gone further is looked for from the beginning, by its id, for as long as a page may take.
A job that an extension has parked is found in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from offsider.inspector import (
    Chunk,
    DeadSet,
    Found,
    JobFilter,
    JobRecord,
    JobSet,
    ParkedList,
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
from offsider.wiring.config import Config

SETS: dict[str, type[JobSet]] = {kind.name: kind for kind in (RetrySet, ScheduledSet, DeadSet)}
QUEUE = "queue:"
PARKED = "parked:"
BUSY = "busy"
QUARANTINE = "quarantine"

#: How far a job may have moved on while somebody looked at a page, before the whole queue is looked through.
_NEAR = 100
_BUDGET_MS = 30


@dataclass(frozen=True)
class JobOfSet:
    """A job in one of the sets."""

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
    """A job that a worker runs now."""

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
class ParkedJob:
    """A job in a list of an extension."""

    parked: ParkedList
    record: JobRecord

    @property
    def where(self) -> str:
        return PARKED + self.parked.key

    @property
    def key(self) -> str:
        return queue_key(self.record, self.record.position)


Place: TypeAlias = JobOfSet | QueuedJob | ParkedJob | RunningJob | JobPutAside


def queue_key(record: JobRecord, position: int | None) -> str:
    """What finds a job of a queue again; without a position by its id alone."""
    return record.key_part if position is None else f"{position}|{record.key_part}"


def jid_of(where: str, key: str) -> str:
    """The job's id in a key, to look for one that has left its place."""
    name = key.partition("|")[2] or key
    return name.rpartition("|")[0] or name if where in SETS else name


def find(config: Config, where: str, key: str) -> Place | None:
    """The job of a place and a key; None when it is not there any more, or there is no such place."""
    if where in SETS:
        entry = SETS[where](config).entry(key)
        return None if entry is None else JobOfSet(where, entry)
    if where.startswith(QUEUE):
        return find_queued(Queue(where.removeprefix(QUEUE), config), key)
    if where.startswith(PARKED):
        return find_parked(ParkedList(where.removeprefix(PARKED), config), key)
    if where == BUSY:
        work = WorkSet(config).find_work(key)
        return None if work is None else RunningJob(work)
    if where == QUARANTINE:
        job = Quarantine(config).find(key)
        return None if job is None else JobPutAside(job)
    return None


def find_by_jid(config: Config, jid: str, budget_ms: float) -> tuple[Place | None, Chunk[Found]]:
    """A job by its id, wherever it is, and the part of a search that was made for it."""
    chunk = search_everywhere(jid, budget_ms=budget_ms, config=config)
    for found in chunk.entries:
        if found.record.jid == jid:
            return find(config, found.where, found.key), chunk
    return None, chunk


def find_parked(parked: ParkedList, key: str) -> ParkedJob | None:
    """A job that an extension has parked by its key."""
    start, jid = _position_and_jid(key)
    there = [] if start is None else parked.page(start, 1)
    if not any(record.key_part == jid for record in there):
        there = parked.scan(JobFilter(text=jid), budget_ms=_BUDGET_MS).entries if jid else []
    return next((ParkedJob(parked, record) for record in there if record.key_part == jid), None)


def _position_and_jid(key: str) -> tuple[int | None, str]:
    position, bar, jid = key.partition("|")
    if not bar:
        position, jid = "", key
    return (int(position[:9]) if position.isascii() and position.isdigit() else None), jid


def find_queued(queue: Queue, key: str) -> QueuedJob | None:
    """A job of a queue by its key."""
    start, jid = _position_and_jid(key)
    return next((found for found in _candidates(queue, start, jid) if found.record.key_part == jid), None)


def _candidates(queue: Queue, start: int | None, jid: str) -> Iterator[QueuedJob]:
    if start is not None:
        # One by one first, because jobs may be large: where it was, then where the workers have left it.
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
