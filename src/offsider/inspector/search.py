"""Searching everywhere at once: running jobs, the sets, every queue, and what extensions have parked."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from offsider.inspector.chunk import Chunk
from offsider.inspector.job_filter import JobFilter
from offsider.inspector.job_record import JobRecord
from offsider.inspector.job_set import DeadSet, JobSet, RetrySet, ScheduledSet
from offsider.inspector.parked_list import ParkedList
from offsider.inspector.queue import Queue
from offsider.inspector.stats import Stats
from offsider.inspector.work import WorkSet
from offsider.wiring.config import Config
from offsider.wiring.default import default_config

_SETS: dict[str, type[JobSet]] = {kind.name: kind for kind in (RetrySet, ScheduledSet, DeadSet)}
_BUSY = "busy"
_QUEUE = "queue:"
_PARKED = "parked:"


@dataclass(frozen=True, slots=True)
class Found:
    """A job that was found.

    Attributes:
        where: ``"busy"``, ``"retry"``, ``"schedule"``, ``"dead"``, ``"queue:<name>"``, or ``"parked:<key>"`` in a list
            of an extension.
        record: the job.
        key: what finds it there again: `SetEntry.key` in sets, ``position|jid`` in queues and lists, the jid of a job
            that runs; bytes without a jid go by a digest.
    """

    where: str
    record: JobRecord
    key: str


def search_everywhere(
    text: str,
    cursor: str = "",
    budget_ms: float = 100,
    config: Config | None = None,
    most: int | None = None,
) -> Chunk[Found]:
    """Look for jobs whose stored form holds a text: a jid, a class, an argument, an error.

    First come the jobs that run, then the retry set, the schedule, the dead set, the queues by name, and the lists of
    extensions.

    Args:
        text: taken as it is.
        cursor: of the chunk before; empty for the beginning.
        budget_ms: about so many milliseconds are spent.
        config: which server; default: this process's.
        most: stop when about so many are found.
    """
    config = config if config is not None else default_config()
    ends = time.monotonic() + budget_ms / 1000
    stats = Stats.read(config)
    chunk: Chunk[Found] = Chunk([], 0, stats.busy + stats.retries + stats.scheduled + stats.dead + stats.enqueued, "")
    chunk.total += stats.held_back
    if not text:
        return chunk
    here, _, inner = cursor.rpartition("|")
    places = [_BUSY, *_SETS, *(_QUEUE + name for name in stats.queues)]
    places += [_PARKED + key for key in ParkedList.keys(config)] if stats.held_back else []
    for place in _from(here, places):
        left_ms = (ends - time.monotonic()) * 1000
        left = None if most is None else most - len(chunk.entries)
        if chunk.scanned and (left_ms <= 0 or (left is not None and left <= 0)):
            chunk.cursor = f"{place}|"
            return chunk
        wanted, start = JobFilter(text=text), inner if place == here else ""
        part = _look(config, place, wanted, start, budget_ms=left_ms, most=left)
        chunk.entries += part.entries
        chunk.scanned += part.scanned
        if part.cursor:
            chunk.cursor = f"{place}|{part.cursor}"
            return chunk
    return chunk


def _from(here: str, places: Sequence[str]) -> Sequence[str]:
    """The places from one on; when it is a queue that is gone, from where it would be."""
    if here in places:
        return places[places.index(here) :]
    parked = [place for place in places if place.startswith(_PARKED)]
    if here.startswith(_PARKED):
        return [place for place in parked if place > here]
    if here.startswith(_QUEUE):
        return [*(place for place in places if place.startswith(_QUEUE) and place > here), *parked]
    return places


def _look(
    config: Config, place: str, wanted: JobFilter, cursor: str, *, budget_ms: float, most: int | None
) -> Chunk[Found]:
    if place == _BUSY:
        works = list(WorkSet(config))
        running = [Found(_BUSY, work.record, work.jid) for work in works if wanted.matches(work.record)]
        return Chunk(running, len(works), len(works), "")
    if place in _SETS:
        entries = _SETS[place](config).scan(wanted, cursor, budget_ms, most)
        stored = [Found(place, entry, entry.key) for entry in entries.entries]
        return Chunk(stored, entries.scanned, entries.total, entries.cursor)
    is_parked = place.startswith(_PARKED)
    listed = ParkedList(place.removeprefix(_PARKED), config) if is_parked else Queue(place.removeprefix(_QUEUE), config)
    jobs = listed.scan(wanted, cursor, budget_ms, most)
    waiting = [Found(place, record, f"{record.position}|{record.key_part}") for record in jobs.entries]
    return Chunk(waiting, jobs.scanned, jobs.total, jobs.cursor)
