"""Read and change a queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.controls import QUEUE as QUEUE_SUBJECT, Control
from offsider.core.errors import InvalidOptions, MalformedPayload, RedisRefused
from offsider.core.options import check_queue_name
from offsider.core.payload import decode_object, encode
from offsider.inspector.job_filter import JobFilter
from offsider.inspector.job_place import JobPlace
from offsider.inspector.job_record import JobRecord
from offsider.inspector.removal import placing
from offsider.storage import control_table, places, queue_walk, queues
from offsider.storage.places import Move, MoveResult, MoveTarget, PlacedJob, departing
from offsider.storage.scripts import RunsScripts
from offsider.storage.store_once import QUEUE

_PAGE = 50
#: Maximum distance of a job from its old position before the whole list is searched, and the time for that.
_NEAR = 100
_ENTRY_MS = 30
#: Number of recently deleted jobs to remember, for iterations of the queue that run at the same time.
_REMEMBERED = 1_000


class _JobList(JobPlace[JobRecord]):
    """A list of jobs in the format of a queue. Iterating yields `JobRecord`, the next job first, and reads in pages.

    A job that stays in the list during the whole iteration is yielded at least once, even if other jobs are pushed,
    claimed and deleted at the same time.

    Args:
        server: its server.
        where: ``queue:<name>``, or the key of a list of an extension, whose jobs name their queues.
    """

    is_unique = False

    def __init__(self, server: Installation, where: str) -> None:
        super().__init__(server, where)
        self._queue = where.removeprefix(QUEUE) if where.startswith(QUEUE) else ""
        self._deleted: deque[str] = deque(maxlen=_REMEMBERED)
        self._deletions = 0

    def __iter__(self) -> Iterator[JobRecord]:
        cursor, more = "", True
        while more:
            page = self._place.read(cursor, _PAGE)
            before = self._deletions
            yield from map(self._record, page.jobs)
            gone = set(islice(reversed(self._deleted), self._deletions - before))
            removed = {at for at, job in enumerate(page.jobs) if queue_walk.digest(job.raw) in gone}
            cursor, more = self._place.after(cursor, page, removed), bool(page.cursor)

    def page(self, start: int, count: int, *, newest_first: bool = False) -> list[JobRecord]:
        """Return one page of jobs, the next job first by default.

        Args:
            start: number of jobs to skip.
            count: maximum number of jobs.
            newest_first: the last pushed job first.
        """
        raws = queues.page(self._redis, self._place.key, start, count, newest_first=newest_first)
        first, step = (len(self) - 1 - start, -1) if newest_first else (start, 1)
        return [self._record(PlacedJob(raw, max(0, first + step * at))) for at, raw in enumerate(raws)]

    def entry(self, key: str) -> JobRecord | None:
        """Return the job with a key in an address, ``position|jid`` or ``jid``; None if it is not found in 30 ms.

        Workers take jobs from the end where positions start, so a job is at its old position or nearer to that end.
        """
        position, bar, jid = key.partition("|") if "|" in key else ("", "", key)
        start = int(position[:9]) if bar and position.isascii() and position.isdigit() else None
        return next((record for record in self._near(start, jid) if record.key_part == jid), None)

    def _near(self, start: int | None, jid: str) -> Iterator[JobRecord]:
        if start is not None:
            # First at the old position, alone because jobs may be large; then at the positions before it.
            yield from self.page(start, 1)
            nearest = max(0, start - _NEAR)
            yield from reversed(self.page(nearest, start - nearest) if start else [])
        if jid:
            yield from self.scan(JobFilter(text=jid), budget_ms=_ENTRY_MS).entries

    def _record(self, stored: PlacedJob) -> JobRecord:
        return JobRecord(stored.raw, self._queue, stored.position)

    def _gone(self, record: JobRecord) -> None:
        self._deleted.append(queue_walk.digest(record.raw))
        self._deletions += 1


class HeldList(_JobList):
    """Jobs that an extension holds back for now, such as jobs over the concurrency limit of their class.

    Args:
        key: key of the list.
        config: selects the server; default: the configuration of this process.
    """

    def __init__(self, key: str, config: Config | Installation | None = None) -> None:
        super().__init__(Installation.of(config), key)
        self._where = f"held:{key.removeprefix(self._redis.keys.held(''))}"

    @classmethod
    def keys(cls, config: Config | Installation | None = None) -> list[str]:
        """Return the keys of all such lists with jobs, sorted."""
        return [*queues.extension_list_lengths(Installation.of(config).redis)]

    def _origin(self, record: JobRecord) -> str:
        return f"{QUEUE}{record.queue}"


class Queue(_JobList):
    """A queue. Iterating yields `JobRecord`, the next job first, and reads in pages.

    A job that stays in the queue during the whole iteration is yielded at least once, even if other jobs are pushed,
    claimed and deleted at the same time.

    Args:
        name: name of the queue, which need not exist.
        config: selects the server; default: the configuration of this process.
    """

    def __init__(self, name: str, config: Config | Installation | None = None) -> None:
        super().__init__(Installation.of(config), QUEUE + name)
        self.name = name

    @classmethod
    def all(cls, config: Config | Installation | None = None) -> list[Queue]:
        """Return every known queue, sorted by name."""
        server = Installation.of(config)
        return [cls(name, server) for name in queues.names(server.redis)]

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
        return 0.0 if enqueued_at is None else max(0.0, self._server.config.clock.now() - enqueued_at)

    @property
    def paused(self) -> bool:
        """Whether the queue is paused, so that workers claim none of its jobs."""
        return self.name in queues.paused(self._redis)

    def pause(self, *, by: str = "", reason: str = "") -> None:
        """Stop workers from claiming jobs of this queue; running jobs continue."""
        control_table.put(self._redis, Control(f"{QUEUE_SUBJECT}{self.name}", "hold", by=by, reason=reason))

    def unpause(self, *, by: str = "") -> None:
        """Let workers claim jobs of this queue again."""
        control_table.clear(self._redis, f"{QUEUE_SUBJECT}{self.name}", by=by)

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
        there = self._server.for_server(server) if server else self._server
        leaves = there.name != self._server.name
        if to == self.name and not leaves:
            raise InvalidOptions(f"jobs of the queue {to} cannot move to the queue {to}")
        if leaves:
            places.probe(there.redis)
            places.deliver(self._redis, there.name, there.redis)
        moved, passed, size = 0, 0, len(self)
        count = min(places.BATCH, size)
        while passed < size and (raws := queues.page(self._redis, self._place.key, 0, min(count, size - passed))):
            moved += self._move(raws, to, there)
            passed += len(raws)
        return moved

    def _move(self, raws: Sequence[bytes], to: str, there: Installation) -> int:
        payloads = [_in_queue(raw, to) for raw in raws]
        redis: RunsScripts = self._redis
        if there.name == self._server.name:
            redis, target = (
                placing(self._server, ((payload, f"queue:{to}", 0.0) for payload in payloads)),
                places.QUEUES,
            )
            moves = [Move(*job, to, at) for at, job in enumerate(zip(raws, payloads, strict=True))]
        else:
            target = MoveTarget("list", there.name)
            moves = [departing(*job, to, there.name, at) for at, job in enumerate(zip(raws, payloads, strict=True))]
        results = self._place.move(moves, target, through=redis)
        if MoveResult.REFUSED in results:
            raise RedisRefused(f"queue:{to} is not a list, so no job can move there", code="WRONGTYPE")
        if there.name != self._server.name:
            places.deliver(self._redis, there.name, there.redis)
        return results.count(MoveResult.DONE)

    def forget(self) -> bool:
        """Remove an empty queue from the set of queues; False if it contains jobs or is not in the set."""
        return queues.forget(self._redis, self.name)

    def _take_one(self, record: JobRecord, act: Callable[[list[JobRecord]], list[MoveResult]]) -> bool:
        if record.position is not None and super()._take_one(record, act):
            return True
        # The position is unknown or outdated: the server compares every job.
        position = queues.position(self._redis, self.name, record.raw)
        found = None if position is None else self._record(PlacedJob(record.raw, position))
        return found is not None and super()._take_one(found, act)

    def _unlink(self) -> int:
        return queues.clear(self._redis, self.name)


def _in_queue(raw: bytes, queue: str) -> bytes:
    """Return a payload that names another queue; bytes that are not an object are unchanged."""
    with suppress(MalformedPayload):
        return encode({**decode_object(raw), "queue": queue})
    return raw
