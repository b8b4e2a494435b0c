"""The walk through all places of a server, a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from offsider.core.errors import RedisRefused
from offsider.inspector.migration.judge import Judge, Judged, Moves, Why
from offsider.inspector.migration.moving import Candidate, Mover
from offsider.inspector.migration.report import MigrationReport, Relocation
from offsider.storage import job_sets, queue_walk
from offsider.storage.job_sets import Moved
from offsider.storage.migration import BATCH
from offsider.storage.queue_walk import Place as Passed

if TYPE_CHECKING:
    from offsider.wiring.config import Config

#: Jobs of a page, and about how many bytes.
_FIRST, _LEAST = 200, 20
_BYTES = 1_000_000


class Walk:
    """Looks at one server, and moves what is to move.

    Args:
        config: knows all servers.
        server: the name of this one.
        judge: says which jobs are to move.
        report: counts.
        limit: of all jobs that the report says have moved.
        moves: else they are counted, and stay.
    """

    def __init__(
        self, config: Config, server: str, judge: Judge, report: MigrationReport, *, limit: int | None, moves: bool
    ) -> None:
        self._redis = config.redis_of(server)
        self._server = server
        self._judge = judge
        self._report = report
        self._limit = limit
        self._mover = Mover(config, server) if moves else None

    def in_queue(self, queue: str) -> Iterator[None]:
        """Yields after each page. Whatever is pushed and taken meanwhile, a job that stays there is met."""
        place, count = Passed(), _FIRST
        while True:
            start, raws = self._read(queue, place, count)
            if not raws:
                return
            judged = [self._judge.judge(raw, self._server, queue) for raw in raws]
            candidates = self._candidates(judged, start)
            gone = self._act(candidates, "queue", lambda mover, some: mover.from_queue(queue, some))
            self._count(judged)
            stayed = [raw for at, raw in enumerate(raws) if start + at not in gone]
            place, count = place.after(start + len(stayed), stayed), _fitting(raws)
            yield

    def in_set(self, sorted_set: str) -> Iterator[None]:
        """The same of the schedule or the retry set."""
        members = job_sets.each(self._redis, self._redis.keys.prefix + sorted_set)
        while raws := [raw for raw, _ in islice(members, _FIRST)]:
            judged = [self._judge.judge(raw, self._server, None) for raw in raws]
            candidates = self._candidates(judged, 0)
            self._act(candidates, sorted_set, lambda mover, some: mover.from_set(sorted_set, some))
            self._count(judged)
            yield

    def _read(self, queue: str, place: Passed, count: int) -> tuple[int, list[bytes]]:
        try:
            return queue_walk.read_on(self._redis, queue, place, count)
        except RedisRefused as error:
            if error.code != "WRONGTYPE":
                raise
            return 0, []  # a key that is no list holds no jobs

    @property
    def limit_reached(self) -> bool:
        return self._left == 0

    @property
    def _left(self) -> int | None:
        return None if self._limit is None else max(0, self._limit - self._report.moved)

    def _candidates(self, judged: Sequence[Judged], start: int) -> list[Candidate]:
        every = (Candidate(job, start + at) for at, job in enumerate(judged) if isinstance(job, Moves))
        return list(islice(every, self._left))

    def _act(
        self, candidates: Sequence[Candidate], where: str, move: Callable[[Mover, Sequence[Candidate]], list[Moved]]
    ) -> Collection[int]:
        """Move jobs, count them, and answer the positions of those that have gone."""
        moved = move(self._mover, candidates) if self._mover is not None else [Moved.DONE] * len(candidates)
        gone: set[int] = set()
        for one, how in zip(candidates, moved, strict=True):
            if how is Moved.DONE:
                gone.add(one.position)
                self._report.relocations[_relocation(one.job, where)] += 1
            elif how is Moved.GONE:
                self._report.taken += 1
            else:
                self._report.refused += 1
        return gone if self._mover is not None else ()

    def _count(self, page: Sequence[Judged]) -> None:
        report = self._report
        report.looked_at += len(page)
        for judged in page:
            if isinstance(judged, Moves):
                continue
            if judged.why is Why.IN_PLACE:
                report.in_place += 1
            elif judged.why is Why.UNREADABLE:
                report.unreadable += 1
            elif judged.why is Why.UNDECLARED:
                report.note_undeclared(judged.name)


def _fitting(raws: Sequence[bytes]) -> int:
    """How many jobs like these make a page."""
    return max(_LEAST, min(BATCH, _BYTES * len(raws) // sum(map(len, raws))))


def _relocation(job: Moves, where: str) -> Relocation:
    here, there = job.here, job.there
    return Relocation(job.payload["class"], where, here.server, here.queue, there.server, there.queue)
