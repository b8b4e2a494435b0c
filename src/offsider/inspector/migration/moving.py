"""Moves jobs of one place that were judged to move: within their server in one step, to another one by a journal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast

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
class _Changed:
    """A job with its new bytes, and with who was told of it."""

    job: Moves
    raw: bytes
    news: JobMoving | None


class Mover:
    """Moves jobs away from one server.

    Args:
        config: knows all servers, and who listens.
        server: the name of the one that the jobs are on.
    """

    def __init__(self, config: Config, server: str) -> None:
        self._config = config
        self._redis = config.redis_of(server)
        self._journals: dict[str, Journal] = {}
        self._number = 0

    def from_queue(self, queue: str, candidates: Sequence[Candidate]) -> list[Moved]:
        """Move jobs of a queue, the one that runs next first. Raises RedisFailure."""
        outcome: dict[int, Moved] = {}
        for places in _batches(candidates):
            batch = [candidates[place] for place in places]
            # Those that have gone were between the others and the end.
            gone = list(accumulate(outcome.get(place) is Moved.DONE for place in range(len(candidates))))
            positions = [one.position - gone[place] for one, place in zip(batch, places, strict=True)]
            outcome |= zip(places, self._move(batch, positions, queue), strict=True)
        return [outcome[place] for place in range(len(candidates))]

    def from_set(self, sorted_set: str, candidates: Sequence[Candidate]) -> list[Moved]:
        """Move jobs of the schedule or the retry set. Raises RedisFailure."""
        outcome: dict[int, Moved] = {}
        for places in _batches(candidates):
            batch = [candidates[place] for place in places]
            outcome |= zip(places, self._move_in_set(batch, sorted_set), strict=True)
        return [outcome[place] for place in range(len(candidates))]

    def finish(self) -> int:
        """Have everything arrive that an earlier migration has left on its way; answers how many jobs.

        Raises:
            ConfigurationError: it goes to a server that is not configured here.
            RedisFailure: a server cannot be reached, or refuses.
        """
        return sum(self._drain(journal) for journal in migration.journals(self._redis))

    # ---------------------------------------------------------------------------------- one batch
    def _move(self, batch: Sequence[Candidate], positions: Sequence[int], queue: str) -> list[Moved]:
        changed = [self._change(one.job) for one in batch]
        pairs = list(zip(changed, positions, strict=True))
        journal = self._journal(batch[0].job)
        if journal is None:
            shifting = [Shifting(one.job.raw, at, one.raw, one.job.there.queue) for one, at in pairs]
            return self._tell(changed, migration.shift(self._redis, queue, shifting))
        leaving = [self._outgoing(one, at, f"queue:{one.job.there.queue}") for one, at in pairs]
        moved = migration.shift_out(self._redis, queue, journal, leaving)
        self._drain(journal)
        return self._tell(changed, moved)

    def _move_in_set(self, batch: Sequence[Candidate], sorted_set: str) -> list[Moved]:
        changed = [self._change(one.job) for one in batch]
        journal = self._journal(batch[0].job)
        if journal is None:
            pairs = [(one.job.raw, one.raw) for one in changed]
            return self._tell(changed, migration.rewrite(self._redis, sorted_set, pairs))
        leaving = [self._outgoing(one, 0, sorted_set) for one in changed]
        moved = migration.set_out(self._redis, sorted_set, journal, leaving)
        self._drain(journal)
        return self._tell(changed, moved)

    def _outgoing(self, one: _Changed, position: int, where: str) -> Outgoing:
        self._number += 1
        return Outgoing(one.job.raw, position, self._number, one.raw, where)

    def _journal(self, job: Moves) -> Journal | None:
        """The journal for another server, which takes jobs now; None for a job that stays on its own."""
        server = job.there.server
        if server == job.here.server:
            return None
        journal = self._journals.setdefault(server, Journal.new(server))
        migration.knock(self._config.redis_of(server), journal)
        return journal

    def _drain(self, journal: Journal) -> int:
        destination = self._config.redis_of(journal.server)
        arrived = 0
        while entries := migration.oldest(self._redis, journal):
            last = migration.deliver(destination, journal, entries)
            arrived += migration.strike_out(self._redis, journal, last)
        return arrived

    # ------------------------------------------------------------------------------ what changes
    def _change(self, job: Moves) -> _Changed:
        before = cast("Mapping[str, Any]", job.payload)
        changes = {"queue": job.there.queue}
        news = None
        if self._config.events.listened("job_moving"):
            news = JobMoving(before, changes, job.here.server, job.there.server)
            self._config.events.emit("job_moving", news)
        return _Changed(job, rewritten(job.raw, before, changes), news)

    def _tell(self, changed: Sequence[_Changed], moved: list[Moved]) -> list[Moved]:
        for one, how in zip(changed, moved, strict=True):
            if one.news is not None:
                self._config.events.emit("job_moved", JobMoved(one.news, moved=how is Moved.DONE))
        return moved


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
