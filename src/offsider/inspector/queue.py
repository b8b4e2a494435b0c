"""Read and change a queue."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.controls import QUEUE, Control
from offsider.core.errors import InvalidOptions, MalformedPayload, RedisRefused
from offsider.core.options import check_queue_name
from offsider.core.payload import decode_object, encode
from offsider.inspector.counted import Counted, CountedByScan
from offsider.inspector.job_filter import JobFilter, refuse_empty
from offsider.inspector.job_record import JobRecord
from offsider.inspector.removal import placing, removing
from offsider.inspector.scan import Chunk, deadline, first_pages, steps
from offsider.runtime.events import JobRemoved
from offsider.storage import control_table, places, quarantine, queue_walk, queues
from offsider.storage.places import Destination, Move, MoveResult, departing
from offsider.storage.quarantine import Seen
from offsider.storage.queue_walk import Place
from offsider.storage.scripts import RunsScripts

_PAGE = 50
_BULK_PAGE = 2_000
_FIND_MS = 1_000
_SAMPLES = 50
_TRIES = 3
#: Number of recently deleted jobs to remember, for iterations of the queue that run at the same time.
_REMEMBERED = 1_000
#: Time budget of a sample; the page that exceeds it is counted too.
_SAMPLE_SECONDS = 0.08


@dataclass(frozen=True, slots=True)
class Callers:
    """Counts of a sample of a queue.

    Attributes:
        sampled: number of jobs in the sample.
        total: number of jobs in the queue.
        by_caller: number of sampled jobs by caller, highest first; ``""`` for jobs without a caller.
        by_class: number of sampled jobs by display class, highest first.
    """

    sampled: int
    total: int
    by_caller: dict[str, int]
    by_class: dict[str, int]


class _JobList:
    """A list of jobs in the format of a queue. Iterating yields `JobRecord`, the next job first, and reads in pages.

    A job that stays in the list during the whole iteration is yielded at least once, even if other jobs are pushed,
    claimed and deleted at the same time.

    Args:
        here: its server.
        key: key of the list.
        queue: name of the queue; empty if the jobs name their queues.
    """

    def __init__(self, here: Installation, key: str, queue: str = "") -> None:
        self._here = here
        self._redis = here.redis
        self._key = key
        self._queue = queue
        self._deleted: deque[str] = deque(maxlen=_REMEMBERED)
        self._deletions = 0

    def __len__(self) -> int:
        return queues.size(self._redis, self._key)

    def __iter__(self) -> Iterator[JobRecord]:
        place = Place()
        while True:
            start, raws = queue_walk.read_on(self._redis, self._key, place, _PAGE)
            if not raws:
                return
            before = self._deletions
            yield from self._records(raws, start)
            gone = set(islice(reversed(self._deleted), self._deletions - before))
            left = [raw for raw in raws if queue_walk.digest(raw) not in gone]
            place = place.after(start + len(left), left)

    def page(self, start: int, count: int, *, newest_first: bool = False) -> list[JobRecord]:
        """Return one page of jobs, the next job first by default.

        Args:
            start: number of jobs to skip.
            count: maximum number of jobs.
            newest_first: the last pushed job first.
        """
        raws = queues.page(self._redis, self._key, start, count, newest_first=newest_first)
        if not newest_first:
            return list(self._records(raws, start))
        last = len(self) - 1 - start
        return [self._record(raw, max(0, last - at)) for at, raw in enumerate(raws)]

    def scan(
        self, wanted: JobFilter, cursor: str = "", budget_ms: float = 100, most: int | None = None
    ) -> Chunk[JobRecord]:
        """Scan for jobs within a time budget, and return the matches with a cursor for the next call.

        Args:
            wanted: the filter.
            cursor: cursor of the previous chunk; empty or unknown: start from the beginning.
            budget_ms: approximate time limit in milliseconds.
            most: maximum number of matches.
        """
        place = Place.read(cursor)
        chunk: Chunk[JobRecord] = Chunk([], 0, len(self), "")
        for step in steps(budget_ms, most):
            start, raws = queue_walk.read_on(self._redis, self._key, place, step)
            if not raws:
                return chunk
            scanned = self._pick(raws, start, wanted, chunk.entries, most)
            chunk.scanned += scanned
            place = place.after(start + scanned, raws[:scanned])
            if scanned < len(raws):
                break
        chunk.cursor = place.written
        return chunk

    def _pick(
        self, raws: Sequence[bytes], start: int, wanted: JobFilter, picked: list[JobRecord], most: int | None
    ) -> int:
        """Add the matching jobs to ``picked``, up to ``most``, and return the number of scanned jobs."""
        for at, record in enumerate(self._records(raws, start)):
            if most is not None and len(picked) >= most:
                return at
            if wanted.matches(record):
                picked.append(record)
        return len(raws)

    def _records(self, raws: Iterable[bytes], start: int) -> Iterator[JobRecord]:
        return (self._record(raw, position) for position, raw in enumerate(raws, start))

    def _record(self, raw: bytes, position: int) -> JobRecord:
        return JobRecord(raw, self._queue, position)


class HeldList(_JobList):
    """Jobs that an extension holds back for now, such as jobs over the concurrency limit of their class.

    Args:
        key: key of the list.
        config: selects the server; default: the configuration of this process.
    """

    def __init__(self, key: str, config: Config | Installation | None = None) -> None:
        super().__init__(Installation.of(config), key)
        self.key = key

    @classmethod
    def keys(cls, config: Config | Installation | None = None) -> list[str]:
        """Return the keys of all such lists with jobs, sorted."""
        return [*queues.extension_list_lengths(Installation.of(config).redis)]

    def __len__(self) -> int:
        return queues.extension_list_lengths(self._redis).get(self.key, 0)


class Queue(_JobList, CountedByScan):
    """A queue. Iterating yields `JobRecord`, the next job first, and reads in pages.

    A job that stays in the queue during the whole iteration is yielded at least once, even if other jobs are pushed,
    claimed and deleted at the same time.

    Args:
        name: name of the queue, which need not exist.
        config: selects the server; default: the configuration of this process.
    """

    _once = False

    def __init__(self, name: str, config: Config | Installation | None = None) -> None:
        here = Installation.of(config)
        super().__init__(here, here.redis.keys.queue(name), name)
        self.name = name

    @classmethod
    def all(cls, config: Config | Installation | None = None) -> list[Queue]:
        """Return every known queue, sorted by name."""
        here = Installation.of(config)
        return [cls(name, here) for name in queues.names(here.redis)]

    @staticmethod
    def pause_all(names: Iterable[str], config: Config | Installation | None = None) -> None:
        """Pause several queues atomically."""
        here = Installation.of(config)
        queues.pause(here.redis, *names)

    @staticmethod
    def unpause_all(names: Iterable[str], config: Config | Installation | None = None) -> None:
        """Unpause several queues atomically."""
        here = Installation.of(config)
        queues.unpause(here.redis, *names)

    @property
    def exists(self) -> bool:
        """Whether a job was pushed to it since it was last deleted."""
        return queues.is_known(self._redis, self.name)

    @property
    def oldest(self) -> JobRecord | None:
        """The next job; None for an empty queue."""
        return next(iter(self.page(0, 1)), None)

    @property
    def latency_seconds(self) -> float:
        """Seconds that the next job has waited; 0 for an empty queue."""
        [enqueued_at] = queues.enqueued_at(self._redis, [self.name])
        return 0.0 if enqueued_at is None else max(0.0, self._here.config.clock.now() - enqueued_at)

    @property
    def paused(self) -> bool:
        """Whether the queue is paused, so that workers claim none of its jobs."""
        return self.name in queues.paused(self._redis)

    def pause(self, *, by: str = "", reason: str = "") -> None:
        """Stop workers from claiming jobs of this queue; running jobs continue."""
        control_table.put(self._redis, Control(f"{QUEUE}{self.name}", "hold", by=by, reason=reason))

    def unpause(self) -> None:
        """Let workers claim jobs of this queue again."""
        control_table.clear(self._redis, f"{QUEUE}{self.name}")

    def find_job(self, jid: str) -> JobRecord | None:
        """Return the job with this ID; scans the whole queue."""
        wanted, cursor = JobFilter(text=jid), ""
        while True:
            chunk = self.scan(wanted, cursor, _FIND_MS)
            found = next((record for record in chunk.entries if record.jid == jid), None)
            if found is not None or chunk.complete:
                return found
            cursor = chunk.cursor

    def callers(self, most: int = 10_000) -> Callers:
        """Count a sample of the jobs by caller and by class.

        Args:
            most: maximum number of jobs to read, fewer if that takes long. In a longer queue the sample is spread over
                the whole queue.
        """
        size = len(self)
        each = max(1, most // _SAMPLES)
        step = max(each, size // _SAMPLES)
        pages = (self.page(start, each) for start in range(0, min(size, _SAMPLES * step), step))
        return count_callers(pages, size)

    def delete(self, record: JobRecord) -> bool:
        """Delete one job. Returns False if it has left the queue."""
        return self._take_one(record, "delete")

    def quarantine(self, record: JobRecord) -> bool:
        """Move one job to the quarantine for ``worker.quarantine_days``. Returns False if it has left the queue."""
        return self._take_one(record, "quarantine")

    def delete_by_class(self, name: str) -> int:
        """Delete every job of a class, and return their number."""
        return self.delete_matching(JobFilter(name=name))

    def delete_matching(self, wanted: JobFilter | Counted, budget_ms: float | None = None) -> int:
        """Delete every matching job permanently, and return the number of deleted jobs.

        Args:
            wanted: a filter or a count.
            budget_ms: approximate time limit; call again with the same `Counted` to continue.
        """
        return self._sweep(wanted, "delete", budget_ms)

    def quarantine_matching(self, wanted: JobFilter | Counted, budget_ms: float | None = None) -> int:
        """Move every matching job to the quarantine for ``worker.quarantine_days``; see `delete_matching`."""
        return self._sweep(wanted, "quarantine", budget_ms)

    def move_all(self, to: str, *, server: str = "") -> int:
        """Move the jobs to the tail of another queue, in their order, and return their number.

        Jobs that are pushed during the move may stay. A process that dies during the move loses no job, and a
        repetition within a day stores none twice.

        Args:
            to: name of the other queue.
            server: name of its server; default: the server of this queue. Jobs that an earlier move left in transit to
                it are delivered first.

        Raises:
            InvalidOptions: ``to`` is not a queue name, or this queue.
            RedisRefused: the other queue's key is not a list.
            RedisFailure: a server cannot be reached, or refuses all jobs.
        """
        check_queue_name(to)
        there = self._here.for_server(server) if server else self._here
        leaves = there.server != self._here.server
        if to == self.name and not leaves:
            raise InvalidOptions(f"jobs of the queue {to} cannot move to the queue {to}")
        if leaves:
            places.probe(there.redis)
            places.deliver(self._redis, there.server, there.redis)
        moved, passed, size = 0, 0, len(self)
        while passed < size and (raws := queues.page(self._redis, self._key, 0, min(places.BATCH, size - passed))):
            moved += self._move(raws, to, there)
            passed += len(raws)
        return moved

    def _move(self, raws: Sequence[bytes], to: str, there: Installation) -> int:
        payloads = [_in_queue(raw, to) for raw in raws]
        redis: RunsScripts = self._redis
        if there.server == self._here.server:
            redis, target = placing(self._here, ((payload, f"queue:{to}", 0.0) for payload in payloads)), places.QUEUES
            moves = [Move(*job, to, at) for at, job in enumerate(zip(raws, payloads, strict=True))]
        else:
            target = Destination("list", there.server)
            moves = [departing(*job, to, there.server, at) for at, job in enumerate(zip(raws, payloads, strict=True))]
        results = places.move(redis, f"queue:{self.name}", moves, target)
        if MoveResult.REFUSED in results:
            raise RedisRefused(f"queue:{to} is not a list, so no job can move there", code="WRONGTYPE")
        if there.server != self._here.server:
            places.deliver(self._redis, there.server, there.redis)
        return results.count(MoveResult.DONE)

    def forget(self) -> bool:
        """Remove an empty queue from the set of queues; False if it contains jobs or is not in the set."""
        return queues.forget(self._redis, self.name)

    def _sweep(self, wanted: JobFilter | Counted, how: str, budget_ms: float | None) -> int:
        refuse_empty(wanted)
        counted = wanted if isinstance(wanted, Counted) else self.count(wanted)
        place, tries, is_over = Place.read(counted.cursor), 0, deadline(budget_ms)
        while True:
            start, raws = queue_walk.read_on(self._redis, self._key, place, _BULK_PAGE)
            if not raws:
                counted.cursor, counted.finished = "", True
                return counted.done
            seen = [Seen(raws[at], start + at) for at in counted.among(raws)]
            taken = self._take(seen, how)
            counted.record(job.raw for job in seen if job.position in taken)
            tries += 1
            if len(taken) < len(seen) and tries < _TRIES:
                continue  # workers claimed jobs, so that positions have changed: read again
            left = [raw for at, raw in enumerate(raws) if start + at not in taken]
            place, tries = place.after(start + len(left), left), 0
            counted.cursor = place.written
            if is_over():
                return counted.done

    def _take_one(self, record: JobRecord, how: str) -> bool:
        known = record.position
        if known is not None and self._take([Seen(record.raw, known)], how):
            return True
        # The position is unknown or outdated: the server compares every job.
        position = queues.position(self._redis, self.name, record.raw)
        return position is not None and bool(self._take([Seen(record.raw, position)], how))

    def _take(self, seen: list[Seen], how: str) -> set[int]:
        """Remove jobs, and return the positions of those that were removed."""
        taken: set[int] = set()
        days, now = 0.0, self._here.config.clock.now()
        if how == "quarantine":
            days = self._here.config.worker.quarantine_days
            quarantine.trim(self._redis)
        for first in range(0, len(seen), quarantine.BATCH):
            batch = seen[first : first + quarantine.BATCH]
            # Jobs removed before were closer to the next job, so the positions of the others have decreased.
            jobs = [Seen(job.raw, job.position - len(taken)) for job in batch]
            redis = removing(self._here, (job.raw for job in batch), f"queue:{self.name}", how)
            replies = quarantine.take_from_queue(redis, self.name, jobs, days=days, at=now, how=how)
            for job, gone in zip(batch, replies, strict=True):
                if gone:
                    taken.add(job.position)
                    self._gone(job.raw, how)
        return taken

    def clear(self) -> int:
        """Delete the queue with all its jobs, and return their number."""
        removed = 0
        if self._here.config.removal_effects or self._here.config.events.listened("job_removed"):
            for page in first_pages(len(self), _BULK_PAGE, partial(queues.page, self._redis, self._key, 0)):
                removed += len(self._take([Seen(raw, position) for position, raw in enumerate(page)], "clear"))
        return removed + queues.clear(self._redis, self.name)

    def _gone(self, raw: bytes, how: str) -> None:
        self._deleted.append(queue_walk.digest(raw))
        self._deletions += 1
        self._here.config.events.emit("job_removed", JobRemoved(raw, f"queue:{self.name}", how, self._here.server))


def _in_queue(raw: bytes, queue: str) -> bytes:
    """Return a payload that names another queue; bytes that are not an object are unchanged."""
    with suppress(MalformedPayload):
        return encode({**decode_object(raw), "queue": queue})
    return raw


def count_callers(pages: Iterable[Sequence[JobRecord]], total: int) -> Callers:
    """Count a sample of a queue of ``total`` jobs, page by page, within the time budget."""
    by_caller: Counter[str] = Counter()
    by_class: Counter[str] = Counter()
    ends = time.monotonic() + _SAMPLE_SECONDS
    for page in pages:
        for record in page:
            by_caller[record.caller or ""] += 1
            by_class[record.display_class] += 1
        if time.monotonic() > ends:
            break
    sampled = by_class.total()
    return Callers(sampled, max(total, sampled), dict(by_caller.most_common()), dict(by_class.most_common()))
