"""Find a stored job by its location and its key in an address.

A job of a set is found by ``score|jid|digest``, or by ``score|jid`` like in Sidekiq's pages. A job of a queue is found
by ``position|jid``: workers take jobs from the end where positions start, so it is at its old position or somewhat
nearer to that end. If it is not there, the queue is searched by its id, as long as a page may take. A job in a list of
an extension, such as a held job, is found in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
    Queue,
    RetrySet,
    ScheduledSet,
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
class JobLocation:
    """A stored job and its location.

    Attributes:
        where: a set, ``queue:<name>``, ``held:<key>``, ``busy`` or ``quarantine``.
        key: its key there.
        record: the job; a `SetEntry` in a set.
        at: when it is due, died or was quarantined, in epoch seconds; None elsewhere.
        work: the run of a running job.
    """

    where: str
    key: str
    record: JobRecord
    at: float | None = None
    work: Work | None = None


def queue_key(record: JobRecord) -> str:
    """Return the key of a job in a queue or a list of an extension."""
    return f"{record.position}|{record.key_part}"


def jid_of(where: str, key: str) -> str:
    """Return the job's id in a key, to search for a job that moved."""
    name = key.partition("|")[2] or key
    return name.rpartition("|")[0] or name if where in SETS else name


def find(here: Installation, where: str, key: str) -> JobLocation | None:
    """Return the job at a location and key; None if it is not there, or the location is unknown."""
    if where in SETS:
        entry = SETS[where](here).entry(key)
        return None if entry is None else JobLocation(where, entry.key, entry, at=entry.at)
    if where.startswith((QUEUE, HELD)):
        kind = Queue if where.startswith(QUEUE) else HeldList
        record = find_in_list(kind(where.partition(":")[2], here), key)
        return None if record is None else JobLocation(where, queue_key(record), record)
    if where == BUSY:
        work = WorkSet(here).find_work(key)
        return None if work is None else JobLocation(where, work.jid, work.record, work=work)
    if where == QUARANTINE:
        job = Quarantine(here).find(key)
        return None if job is None else JobLocation(where, job.id, job, at=job.at)
    return None


def find_by_jid(here: Installation, jid: str, budget_ms: float) -> tuple[JobLocation | None, Chunk[Found]]:
    """Return a job by its id, wherever it is, and the step of the search for it."""
    chunk = search_everywhere(jid, budget_ms=budget_ms, config=here)
    for found in chunk.entries:
        if found.record.jid == jid:
            return find(here, found.where, found.key), chunk
    return None, chunk


def find_in_list(jobs: Queue | HeldList, key: str) -> JobRecord | None:
    """Return a job in a queue, or in a list of an extension, by its key."""
    position, bar, jid = key.partition("|")
    if not bar:
        position, jid = "", key
    start = int(position[:9]) if position.isascii() and position.isdigit() else None
    return next((record for record in _candidates(jobs, start, jid) if record.key_part == jid), None)


def _candidates(jobs: Queue | HeldList, start: int | None, jid: str) -> Iterator[JobRecord]:
    if start is not None:
        # First at the old position, alone because jobs may be large; then at the positions before it.
        yield from jobs.page(start, 1)
        nearest = max(0, start - _NEAR)
        yield from reversed(jobs.page(nearest, start - nearest) if start else [])
    if jid:
        yield from jobs.scan(JobFilter(text=jid), budget_ms=_BUDGET_MS).entries
