"""Moves jobs of one place that were judged to move: within their server in one step, to another one by a journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast

from offsider.core.errors import RedisFailure
from offsider.inspector.migration.judge import Moves
from offsider.inspector.migration.rewriting import rewritten
from offsider.storage import migration
from offsider.storage.job_sets import Moved
from offsider.storage.migration import BATCH, Journal, Outgoing, Shifting
from offsider.wiring.events import JobMoved, JobMoving

if TYPE_CHECKING:
    from offsider.wiring.config import Config

#: Bytes of the jobs that one script moves, unless a single job has more.
_MOST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job that is to move; in a queue, ``position`` jobs were to run before it when it was seen."""

    job: Moves
    position: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a move went, and the bytes of the job in its new place."""

    how: Moved
    raw: bytes


@dataclass(frozen=True, slots=True)
class _Changed:
    """A job at its position, with its new bytes, and with what was told of it."""

    job: Moves
    position: int
    raw: bytes
    news: JobMoving | None


class Mover:
    """Moves jobs away from one server.

    Args:
        config: knows all servers, and who listens.
        server: the name of the one that the jobs are on.
        failures: servers that did not do what was asked, by name, and why: no job leaves for them, and none waits for
            them again. Those that fail now are added.
    """

    def __init__(self, config: Config, server: str, failures: dict[str, RedisFailure]) -> None:
        self._config = config
        self._failures = failures
        self._redis = config.redis_of(server)
        self._journals: dict[str, Journal] = {}
        self._number = 0

    def from_queue(self, queue: str, candidates: Sequence[Candidate]) -> list[Outcome]:
        """Move jobs of a queue, the one that runs next first. Raises RedisFailure."""

        def shift(batch: Sequence[_Changed]) -> list[Moved]:
            shifting = [Shifting(one.job.raw, one.position, one.raw, one.job.there.queue) for one in batch]
            return migration.shift(self._redis, queue, shifting)

        return self._from_list(self._redis.keys.queue(queue), candidates, shift, stay=False)

    def from_parking(self, key: str, candidates: Sequence[Candidate]) -> list[Outcome]:
        """Send jobs of a list in which an extension keeps them to other queues: on their server they stay in it.

        Raises:
            RedisFailure: a server cannot be reached, or refuses.
        """

        def replace(batch: Sequence[_Changed]) -> list[Moved]:
            return migration.replace(self._redis, key, [(one.job.raw, one.position, one.raw) for one in batch])

        return self._from_list(key, candidates, replace, stay=True)

    def from_set(self, sorted_set: str, candidates: Sequence[Candidate]) -> list[Outcome]:
        """Move jobs of the schedule or the retry set. Raises RedisFailure."""
        outcome: dict[int, Outcome] = {}
        for places in _batches(candidates):
            if not self._takes_jobs(candidates[places[0]].job):
                outcome |= _refused(candidates, places)
                continue
            batch = [self._change(candidates[place].job, 0) for place in places]
            journal = self._journal(batch[0].job)
            if journal is None:
                moved = migration.rewrite(self._redis, sorted_set, [(one.job.raw, one.raw) for one in batch])
            else:
                leaving = [self._outgoing(one, sorted_set) for one in batch]
                moved = migration.set_out(self._redis, sorted_set, journal, leaving)
                self._send(journal)
            outcome |= zip(places, self._told(batch, moved), strict=True)
        return [outcome[place] for place in range(len(candidates))]

    def finish(self) -> int:
        """Have everything arrive that an earlier migration has left on its way; answers how many jobs.

        Raises:
            ConfigurationError: it goes to a server that is not configured here.
            RedisFailure: the server that the jobs leave cannot be reached, or refuses.
        """
        return sum(self._send(journal) for journal in migration.journals(self._redis))

    # ---------------------------------------------------------------------------------- one batch
    def _from_list(
        self,
        key: str,
        candidates: Sequence[Candidate],
        move: Callable[[Sequence[_Changed]], list[Moved]],
        *,
        stay: bool,
    ) -> list[Outcome]:
        """``move`` is for those that stay on this server, and ``stay`` whether they also stay in the list."""
        outcome: dict[int, Outcome] = {}
        left: set[int] = set()
        for places in _batches(candidates):
            if not self._takes_jobs(candidates[places[0]].job):
                outcome |= _refused(candidates, places)
                continue
            # Those that have left were between the others and the end.
            before = list(accumulate(place in left for place in range(len(candidates))))
            batch = [self._change(candidates[at].job, candidates[at].position - before[at]) for at in places]
            journal = self._journal(batch[0].job)
            if journal is None:
                moved = move(batch)
            else:
                leaving = [self._outgoing(one, f"queue:{one.job.there.queue}") for one in batch]
                moved = migration.shift_out(self._redis, key, journal, leaving)
                self._send(journal)
            if journal is not None or not stay:
                left |= {place for place, how in zip(places, moved, strict=True) if how is Moved.DONE}
            outcome |= zip(places, self._told(batch, moved), strict=True)
        return [outcome[place] for place in range(len(candidates))]

    def _outgoing(self, one: _Changed, where: str) -> Outgoing:
        self._number += 1
        return Outgoing(one.job.raw, one.position, self._number, one.raw, where)

    def _journal(self, job: Moves) -> Journal | None:
        """The journal for another server; None for a job that stays on its own."""
        server = job.there.server
        return None if server == job.here.server else self._journals.setdefault(server, Journal.new(server))

    def _takes_jobs(self, job: Moves) -> bool:
        """Whether the server that a job goes to takes jobs now, if it is another one."""
        journal = self._journal(job)
        if journal is None:
            return True
        if journal.server not in self._failures:
            try:
                migration.knock(self._config.redis_of(journal.server), journal)
            except RedisFailure as error:
                self._failures[journal.server] = error
        return journal.server not in self._failures

    def _send(self, journal: Journal) -> int:
        """Have the jobs of a journal arrive; those that the other server does not take stay in it."""
        destination = self._config.redis_of(journal.server)
        arrived = 0
        while journal.server not in self._failures and (entries := migration.oldest(self._redis, journal)):
            try:
                last = migration.deliver(destination, journal, entries)
            except RedisFailure as error:
                self._failures[journal.server] = error
            else:
                arrived += migration.strike_out(self._redis, journal, last)
        return arrived

    # ------------------------------------------------------------------------------ what changes
    def _change(self, job: Moves, position: int) -> _Changed:
        before = cast("Mapping[str, Any]", job.payload)
        changes = {"queue": job.there.queue}
        news = None
        if self._config.events.listened("job_moving"):
            news = JobMoving(before, changes, job.here.server, job.there.server)
            self._config.events.emit("job_moving", news)
        return _Changed(job, position, rewritten(job.raw, before, changes), news)

    def _told(self, batch: Sequence[_Changed], moved: Sequence[Moved]) -> list[Outcome]:
        for one, how in zip(batch, moved, strict=True):
            if one.news is not None:
                self._config.events.emit("job_moved", JobMoved(one.news, moved=how is Moved.DONE))
        return [Outcome(how, one.raw) for one, how in zip(batch, moved, strict=True)]


def _refused(candidates: Sequence[Candidate], places: Sequence[int]) -> dict[int, Outcome]:
    return {place: Outcome(Moved.REFUSED, candidates[place].job.raw) for place in places}


def _batches(candidates: Sequence[Candidate]) -> Iterator[list[int]]:
    """Places of jobs that go to the same server, so many as one script takes."""
    for server in dict.fromkeys(one.job.there.server for one in candidates):
        batch: list[int] = []
        size = 0
        for place, one in enumerate(candidates):
            if one.job.there.server != server:
                continue
            if batch and (len(batch) == BATCH or size + len(one.job.raw) > _MOST_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(place)
            size += len(one.job.raw)
        yield batch
