"""Search everywhere: running jobs, the sets, every queue, and the held jobs of extensions."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.job_id import JobInfo
from offsider.inspector.job_filter import JobFilter
from offsider.inspector.job_place import JobPlace
from offsider.inspector.job_record import JobRecord
from offsider.inspector.job_set import DeadSet, JobSet, RetrySet, ScheduledSet
from offsider.inspector.queue import HeldList, Queue
from offsider.inspector.scan import Chunk
from offsider.inspector.stats import Stats
from offsider.inspector.work import WorkSet

_SETS: dict[str, type[JobSet]] = {kind.name: kind for kind in (RetrySet, ScheduledSet, DeadSet)}
_BUSY = "busy"
_QUEUE = "queue:"
_HELD = "held:"
_JID = re.compile(r"[0-9A-Za-z-]{8,64}")


@dataclass(frozen=True, slots=True)
class Found:
    """A matching job.

    Attributes:
        where: ``"busy"``, ``"retry"``, ``"schedule"``, ``"dead"``, ``"queue:<name>"``, or ``"held:<key>"`` in a list
            of an extension.
        record: the job.
        key: key to find it there again: `SetEntry.key` in sets, ``position|jid`` in queues and lists, the jid of a
            running job; a digest replaces a missing jid.
    """

    where: str
    record: JobRecord
    key: str


def search_everywhere(
    text: str,
    cursor: str = "",
    budget_ms: float = 100,
    config: Config | Installation | None = None,
    most: int | None = None,
) -> Chunk[Found]:
    """Search jobs whose stored form contains a text: a jid, a class, an argument, an error.

    The order is: running jobs, retry set, schedule, dead set, queues by name, lists of extensions.

    Args:
        text: literal text.
        cursor: cursor of the previous chunk; empty for the beginning.
        budget_ms: approximate time limit in milliseconds.
        config: selects the server; default: the configuration of this process.
        most: approximate maximum number of matches.
    """
    server = Installation.of(config)
    ends = time.monotonic() + budget_ms / 1000
    stats = Stats.read(server)
    chunk: Chunk[Found] = Chunk([], 0, stats.busy + stats.retries + stats.scheduled + stats.dead + stats.enqueued, "")
    chunk.total += stats.held_back
    if not text:
        return chunk
    first, _, inner = cursor.rpartition("|")
    places = [_BUSY, *_SETS, *(_QUEUE + name for name in stats.queues)]
    places += [_HELD + key for key in HeldList.keys(server)] if stats.held_back else []
    for place in _from(first, places):
        left_ms = (ends - time.monotonic()) * 1000
        left = None if most is None else most - len(chunk.entries)
        if chunk.scanned and (left_ms <= 0 or (left is not None and left <= 0)):
            chunk.cursor = f"{place}|"
            return chunk
        wanted, start = JobFilter(text=text), inner if place == first else ""
        part = _scan(server, place, wanted, start, budget_ms=left_ms, most=left)
        chunk.entries += part.entries
        chunk.scanned += part.scanned
        if part.cursor:
            chunk.cursor = f"{place}|{part.cursor}"
            return chunk
    return chunk


def find_tracked(jid: str, config: Config | Installation | None = None) -> JobInfo | None:
    """Return the state of a tracked job, which may have ended; None if there is none with this id.

    Args:
        jid: any text; only the id of a job is looked up.
        config: as for `search_everywhere`. Without the extension ``Results`` no job is tracked.
    """
    server = Installation.of(config)
    if server.config.results is None or not _JID.fullmatch(jid):
        return None
    info = server.results.info(jid)
    return None if info.state == "untracked" else info


def _from(here: str, places: Sequence[str]) -> Sequence[str]:
    """Return the places from ``here`` on; if that queue no longer exists, those after it in order."""
    if here in places:
        return places[places.index(here) :]
    held = [place for place in places if place.startswith(_HELD)]
    if here.startswith(_HELD):
        return [place for place in held if place > here]
    if here.startswith(_QUEUE):
        return [*(place for place in places if place.startswith(_QUEUE) and place > here), *held]
    return places


def _scan(
    server: Installation, place: str, wanted: JobFilter, cursor: str, *, budget_ms: float, most: int | None
) -> Chunk[Found]:
    if place == _BUSY:
        works = list(WorkSet(server))
        running = [Found(_BUSY, work.record, work.jid) for work in works if wanted.matches(work.record)]
        return Chunk(running, len(works), len(works), "")
    jobs = _place(server, place)
    chunk = jobs.scan(wanted, cursor, budget_ms, most)
    found = [Found(place, job, jobs.key_of(job)) for job in chunk.entries]
    return Chunk(found, chunk.scanned, chunk.total, chunk.cursor)


def _place(server: Installation, place: str) -> JobPlace[Any]:
    if place in _SETS:
        return _SETS[place](server)
    return (
        HeldList(place.removeprefix(_HELD), server)
        if place.startswith(_HELD)
        else Queue(place.removeprefix(_QUEUE), server)
    )
