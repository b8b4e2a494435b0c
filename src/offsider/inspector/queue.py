"""A queue from the outside."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from offsider.inspector import callers
from offsider.inspector.callers import Callers
from offsider.inspector.chunk import Chunk, Preview
from offsider.inspector.job_filter import JobFilter
from offsider.inspector.job_record import JobRecord
from offsider.inspector.pace import steps
from offsider.storage import oldest, quarantine, queue_walk, queues
from offsider.storage.quarantine import Seen
from offsider.storage.queue_walk import Place
from offsider.wiring.config import Config
from offsider.wiring.default import default_config
from offsider.wiring.events import JobRemoved

_PAGE = 50
_BULK_PAGE = 2_000
_FIND_MS = 1_000
_SAMPLES = 50
_TRIES = 3
#: So many jobs that were deleted by hand are remembered, for those who look through the queue meanwhile.
_REMEMBERED = 1_000


class Queue:
    """Iterating gives `JobRecord`, the one that runs next first, in pages.

    Whatever is pushed, taken and deleted meanwhile, a job that stays in the queue all the time comes at least once.

    Args:
        name: of the queue; it need not exist.
        config: which server; default: this process's.
    """

    def __init__(self, name: str, config: Config | None = None) -> None:
        self.name = name
        self._config = config if config is not None else default_config()
        self._deleted: deque[str] = deque(maxlen=_REMEMBERED)
        self._deletions = 0
        self._redis = self._config.shared_redis()

    @classmethod
    def all(cls, config: Config | None = None) -> list[Queue]:
        """Every known queue, by name."""
        config = config if config is not None else default_config()
        return [cls(name, config) for name in queues.names(config.shared_redis())]

    @staticmethod
    def pause_all(names: Iterable[str], config: Config | None = None) -> None:
        """Pause several queues at once."""
        config = config if config is not None else default_config()
        queues.pause(config.shared_redis(), *names)

    @staticmethod
    def unpause_all(names: Iterable[str], config: Config | None = None) -> None:
        """Let several queues go on at once."""
        config = config if config is not None else default_config()
        queues.unpause(config.shared_redis(), *names)

    @property
    def exists(self) -> bool:
        """Whether a job was ever pushed to it since it was last deleted."""
        return queues.is_known(self._redis, self.name)

    def __len__(self) -> int:
        return queues.size(self._redis, self.name)

    def __iter__(self) -> Iterator[JobRecord]:
        place = Place()
        while True:
            start, raws = queue_walk.read_on(self._redis, self.name, place, _PAGE)
            if not raws:
                return
            before = self._deletions
            yield from self._records(raws, start)
            gone = set(islice(reversed(self._deleted), self._deletions - before))
            left = [raw for raw in raws if queue_walk.digest(raw) not in gone]
            place = place.after(start + len(left), left)

    def page(self, start: int, count: int, *, newest_first: bool = False) -> list[JobRecord]:
        """Some jobs, from the one that runs next on, or from the one that was pushed last.

        Args:
            start: how many to leave out.
            count: how many at most.
            newest_first: which end to begin at.
        """
        raws = queues.page(self._redis, self.name, start, count, newest_first=newest_first)
        if not newest_first:
            return list(self._records(raws, start))
        last = len(self) - 1 - start
        return [self._record(raw, max(0, last - at)) for at, raw in enumerate(raws)]

    @property
    def oldest(self) -> JobRecord | None:
        """The job that runs next; None for an empty queue."""
        return next(iter(self.page(0, 1)), None)

    @property
    def latency_seconds(self) -> float:
        """How long the next job has waited; 0 for an empty queue."""
        [enqueued_at] = oldest.enqueued_at(self._redis, [self.name])
        return 0.0 if enqueued_at is None else max(0.0, self._config.clock.now() - enqueued_at)

    @property
    def paused(self) -> bool:
        return self.name in queues.paused(self._redis)

    def pause(self) -> None:
        """Have no worker take jobs from here; jobs that run already go on."""
        queues.pause(self._redis, self.name)

    def unpause(self) -> None:
        queues.unpause(self._redis, self.name)

    def find_job(self, jid: str) -> JobRecord | None:
        """The job with this id; looks through the whole queue."""
        wanted, cursor = JobFilter(text=jid), ""
        while True:
            chunk = self.scan(wanted, cursor, _FIND_MS)
            found = next((record for record in chunk.entries if record.jid == jid), None)
            if found is not None or chunk.complete:
                return found
            cursor = chunk.cursor

    def callers(self, most: int = 10_000) -> Callers:
        """Who fills this queue: jobs counted by caller and by class.

        Args:
            most: how many jobs to look at, fewer when that takes long; of a longer queue, some from each part of it.
        """
        size = len(self)
        each = max(1, most // _SAMPLES)
        step = max(each, size // _SAMPLES)
        pages = (self.page(start, each) for start in range(0, min(size, _SAMPLES * step), step))
        return callers.count(pages, size)

    def scan(
        self, wanted: JobFilter, cursor: str = "", budget_ms: float = 100, most: int | None = None
    ) -> Chunk[JobRecord]:
        """Look for jobs for about as long as is given, and answer what was found and where to go on.

        Args:
            wanted: which jobs.
            cursor: of the chunk before; empty, or anything else that no chunk had, is the beginning.
            budget_ms: milliseconds.
            most: stop when so many are found.
        """
        place = Place.read(cursor)
        chunk: Chunk[JobRecord] = Chunk([], 0, len(self), "")
        for step in steps(budget_ms, most):
            start, raws = queue_walk.read_on(self._redis, self.name, place, step)
            if not raws:
                return chunk
            looked_at = self._pick(raws, start, wanted, chunk.entries, most)
            chunk.scanned += looked_at
            place = place.after(start + looked_at, raws[:looked_at])
            if looked_at < len(raws):
                break
        chunk.cursor = place.written
        return chunk

    def _pick(
        self, raws: Sequence[bytes], start: int, wanted: JobFilter, picked: list[JobRecord], most: int | None
    ) -> int:
        """Add the jobs that fit to ``picked``, and answer how many were looked at until there were enough."""
        for at, record in enumerate(self._records(raws, start)):
            if most is not None and len(picked) >= most:
                return at
            if wanted.matches(record):
                picked.append(record)
        return len(raws)

    def preview(self, wanted: JobFilter, budget_ms: float = 100) -> Preview:
        """How many jobs a bulk action would reach, as far as that is found out in the time."""
        chunk = self.scan(wanted, budget_ms=budget_ms)
        return Preview(len(chunk.entries), chunk.scanned, chunk.complete)

    def delete(self, record: JobRecord) -> bool:
        """Remove one job. False when it has left the queue meanwhile."""
        if record.position is not None and self._take([Seen(record.raw, record.position)], "delete", self._delete):
            return True
        # No place is known, or it is far from there: the server compares with every job.
        deleted = queues.delete_job(self._redis, self.name, record.raw)
        if deleted:
            self._gone(record.raw, "delete")
        return deleted

    def quarantine(self, record: JobRecord) -> bool:
        """Put one job aside for ``worker.quarantine_days``. False when it has left the queue meanwhile."""
        known = record.position
        if known is not None and self._take([Seen(record.raw, known)], "quarantine", self._put_aside):
            return True
        position = queues.position(self._redis, self.name, record.raw)
        return position is not None and bool(self._take([Seen(record.raw, position)], "quarantine", self._put_aside))

    def delete_by_class(self, name: str) -> int:
        """Remove every job of a class, and answer how many there were."""
        return self.delete_matching(JobFilter(name=name))

    def delete_matching(self, wanted: JobFilter) -> int:
        """Remove every job that fits, for good, and answer how many there were."""
        return self._sweep(wanted, "delete", self._delete)

    def quarantine_matching(self, wanted: JobFilter) -> int:
        """Put every job that fits aside for ``worker.quarantine_days``, and answer how many there were."""
        return self._sweep(wanted, "quarantine", self._put_aside)

    def _delete(self, jobs: list[Seen]) -> list[bool]:
        return quarantine.take_from_queue(self._redis, self.name, jobs)

    def _put_aside(self, jobs: list[Seen]) -> list[bool]:
        days, now = self._config.worker.quarantine_days, self._config.clock.now()
        return quarantine.take_from_queue(self._redis, self.name, jobs, days=days, at=now, how="quarantine")

    def _sweep(self, wanted: JobFilter, how: str, take: Callable[[list[Seen]], list[bool]]) -> int:
        removed, place, tries = 0, Place(), 0
        while True:
            start, raws = queue_walk.read_on(self._redis, self.name, place, _BULK_PAGE)
            if not raws:
                return removed
            matching = [at for at, record in enumerate(self._records(raws, start)) if wanted.matches(record)]
            seen = [Seen(raws[at], start + at) for at in matching]
            taken = self._take(seen, how, take)
            removed += len(taken)
            tries += 1
            if len(taken) < len(seen) and tries < _TRIES:
                continue  # workers took some, or so many that the others were not found: look again
            left = [raw for at, raw in enumerate(raws) if start + at not in taken]
            place, tries = place.after(start + len(left), left), 0

    def _take(self, seen: list[Seen], how: str, take: Callable[[list[Seen]], list[bool]]) -> set[int]:
        """Take jobs out, and answer at which positions they were."""
        taken: set[int] = set()
        for first in range(0, len(seen), quarantine.BATCH):
            batch = seen[first : first + quarantine.BATCH]
            # What was taken before was nearer to the end.
            replies = take([Seen(job.raw, job.position - len(taken)) for job in batch])
            for job, gone in zip(batch, replies, strict=True):
                if gone:
                    taken.add(job.position)
                    self._gone(job.raw, how)
        return taken

    def clear(self) -> int:
        """Delete the queue with all its jobs, and answer how many there were."""
        told = 0
        if self._config.events.listened("job_removed"):
            told = self._take_one_by_one()
        return told + queues.clear(self._redis, self.name)

    def _take_one_by_one(self) -> int:
        """All jobs that are there now, in pages: each is told of."""
        taken, size = 0, len(self)
        while taken < size:
            raws = queues.take(self._redis, self.name, min(_BULK_PAGE, size - taken))
            if not raws:
                break
            taken += len(raws)
            for raw in raws:
                self._gone(raw, "clear")
        return taken

    def _records(self, raws: Iterable[bytes], start: int) -> Iterator[JobRecord]:
        return (self._record(raw, position) for position, raw in enumerate(raws, start))

    def _record(self, raw: bytes, position: int) -> JobRecord:
        return JobRecord(raw, self.name, position)

    def _gone(self, raw: bytes, how: str) -> None:
        self._deleted.append(queue_walk.digest(raw))
        self._deletions += 1
        self._config.events.emit("job_removed", JobRemoved(raw, f"queue:{self.name}", how, self._config.server))
