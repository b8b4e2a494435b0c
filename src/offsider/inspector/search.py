"""Search everywhere: running jobs, the sets, every queue, and the held jobs of extensions."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import InvalidOptions
from offsider.core.job_id import JobInfo
from offsider.inspector.job_filter import JobFilter
from offsider.inspector.job_place import JobPlace
from offsider.inspector.job_record import JobRecord
from offsider.inspector.job_set import DeadSet, JobSet, RetrySet, ScheduledSet
from offsider.inspector.quarantine import Quarantine
from offsider.inspector.queue import HeldList, Queue
from offsider.inspector.scan import Chunk
from offsider.inspector.work import WorkSet
from offsider.storage import queues

#: Places, or the beginning of their names.
BUSY, QUEUE, HELD, QUARANTINE = "busy", "queue:", "held:", "quarantine"
#: What a user calls several places.
RUNNING, QUEUES, HELD_LISTS, ALL = "running", "queues", "held", "all"
SETS: dict[str, type[JobSet]] = {kind.name: kind for kind in (RetrySet, ScheduledSet, DeadSet)}
#: What `place_names` takes.
PLACES = (RUNNING, *SETS, "queue:NAME", QUEUES, HELD_LISTS, QUARANTINE, ALL)
#: The order of the search.
_ORDER = (BUSY, *SETS, QUEUE, HELD, QUARANTINE)
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
    places = place_names(server) if text else []
    return search_places(server, places, JobFilter(text=text), cursor, budget_ms=budget_ms, most=most)


def search_places(
    server: Installation,
    places: Sequence[str],
    wanted: JobFilter,
    cursor: str = "",
    *,
    budget_ms: float = 100,
    most: int | None = None,
) -> Chunk[Found]:
    """Search jobs in some places, in the order of `place_names`. Other arguments as of `search_everywhere`."""
    ends = time.monotonic() + budget_ms / 1000
    sizes = sizes_of(server, places)
    chunk: Chunk[Found] = Chunk([], 0, sum(sizes.values()), "")
    first, _, inner = cursor.rpartition("|")
    for place in places:
        # The place of the cursor may no longer exist. Empty queues may be many.
        if _rank(place) < _rank(first) or (place.startswith(QUEUE) and not sizes[place]):
            continue
        left_ms = (ends - time.monotonic()) * 1000
        left = None if most is None else most - len(chunk.entries)
        if chunk.scanned and (left_ms <= 0 or (left is not None and left <= 0)):
            chunk.cursor = f"{place}|"
            return chunk
        part = _scan(server, place, wanted, inner if place == first else "", budget_ms=left_ms, most=left)
        chunk.entries += part.entries
        chunk.scanned += part.scanned
        if part.cursor:
            chunk.cursor = f"{place}|{part.cursor}"
            return chunk
    return chunk


def place_names(server: Installation, where: Collection[str] = ()) -> list[str]:
    """Return the names of places, in the order in which they are searched.

    Args:
        server: their server.
        where: names of places, as `Found.where`; ``running``, all ``queues``, all ``held`` lists. Empty or ``all``:
            every place but the quarantine.

    Raises:
        InvalidOptions: there is no such place.
    """
    known = {RUNNING: [BUSY], QUARANTINE: [QUARANTINE], **{name: [name] for name in SETS}}
    if not where or {ALL, QUEUES}.intersection(where):
        known[QUEUES] = [QUEUE + name for name in queue_names(server)]
    if not where or {ALL, HELD_LISTS}.intersection(where):
        known[HELD_LISTS] = [HELD + key for key in HeldList.keys(server)]
    found: list[str] = []
    for name in where or (ALL,):
        if name == ALL:
            found += [each for kind, names in known.items() if kind != QUARANTINE for each in names]
        elif name.startswith((QUEUE, HELD)):
            found.append(name)
        elif name in known:
            found += known[name]
        else:
            raise InvalidOptions(f"there is no place {name!r}: {', '.join(PLACES)}")
    return sorted(set(found), key=_rank)


def queue_names(server: Installation) -> list[str]:
    """Return the names of all queues."""
    return [queue.name for queue in Queue.all(server)]


def sizes_of(server: Installation, places: Sequence[str]) -> dict[str, int]:
    """Return the number of jobs of each place, of all queues in one round trip."""
    waiting = queues.lengths(server.redis, [name.removeprefix(QUEUE) for name in places if name.startswith(QUEUE)])
    sizes = dict.fromkeys(places, 0) | {f"{QUEUE}{queue}": size or 0 for queue, size in waiting.items()}
    for name in (each for each in places if not each.startswith(QUEUE)):
        place = place_of(server, name)
        sizes[name] = len(WorkSet(server) if place is None else place)
    return sizes


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


def _rank(place: str) -> tuple[int, str]:
    """Return the position of a place in the order of the search; an unknown one is before all others."""
    kind = place[: place.find(":") + 1] or place
    return (_ORDER.index(kind) if kind in _ORDER else -1), place


def _scan(
    server: Installation, place: str, wanted: JobFilter, cursor: str, *, budget_ms: float, most: int | None
) -> Chunk[Found]:
    jobs = place_of(server, place)
    if jobs is None:
        works = list(iter(WorkSet(server)))
        running = [Found(BUSY, work.record, work.jid) for work in works if wanted.matches(work.record)]
        return Chunk(running, len(works), len(works), "")
    chunk = jobs.scan(wanted, cursor, budget_ms, most)
    found = [Found(place, job, jobs.key_of(job)) for job in chunk.entries]
    return Chunk(found, chunk.scanned, chunk.total, chunk.cursor)


def place_of(server: Installation, where: str) -> JobPlace[Any] | None:
    """Return the set, queue or list of a `Found.where`, or the quarantine; None for running jobs and unknown places."""
    if where in SETS:
        return SETS[where](server)
    if where == QUARANTINE:
        return Quarantine(server)
    if where.startswith(HELD):
        return HeldList(where.removeprefix(HELD), server)
    return Queue(where.removeprefix(QUEUE), server) if where.startswith(QUEUE) else None
