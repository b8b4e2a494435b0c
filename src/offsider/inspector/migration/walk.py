"""The walk through all places of a server, a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from offsider.core.errors import RedisRefused
from offsider.inspector.migration.judge import Judge, Judged, Moves, Why
from offsider.inspector.migration.moving import Candidate, Mover, Outcome
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
        self._mover = Mover(config, server, report.failures) if moves else None

    def in_queue(self, queue: str) -> Iterator[None]:
        """Yields after each page. Whatever is pushed and taken meanwhile, a job that stays there is met."""

        def move(mover: Mover, some: Sequence[Candidate]) -> list[Outcome]:
            return mover.from_queue(queue, some)

        return self._in_list(self._redis.keys.queue(queue), queue, "queue", move)

    def in_parking(self, key: str) -> Iterator[None]:
        """The same of a list in which an extension keeps jobs that go to their queue later."""

        def move(mover: Mover, some: Sequence[Candidate]) -> list[Outcome]:
            return mover.from_parking(key, some)

        return self._in_list(key, None, "parked", move)

    def _in_list(
        self, key: str, queue: str | None, where: str, move: Callable[[Mover, Sequence[Candidate]], list[Outcome]]
    ) -> Iterator[None]:
        place, count = Passed(), _FIRST
        while True:
            start, raws = self._read(key, place, count)
            if not raws:
                return
            judged = [self._judge.judge(raw, self._server, queue) for raw in raws]
            candidates = self._candidates(judged, start)
            moved = self._act(candidates, where, move)
            self._count(judged)
            stayed = self._stayed(raws, start, moved, in_parking=queue is None)
            place, count = place.after(start + len(stayed), stayed), _fitting(raws)
            yield

    def _stayed(
        self, raws: Sequence[bytes], start: int, moved: Mapping[int, tuple[Moves, bytes]], *, in_parking: bool
    ) -> list[bytes]:
        """What lies in the list now, in place of what was read."""
        stayed: list[bytes] = []
        for position, raw in enumerate(raws, start):
            if position not in moved:
                stayed.append(raw)
                continue
            job, stored = moved[position]
            if in_parking and job.there.server == self._server:
                stayed.append(stored)
        return stayed

    def in_set(self, sorted_set: str) -> Iterator[None]:
        """The same of the schedule or the retry set."""

        def move(mover: Mover, some: Sequence[Candidate]) -> list[Outcome]:
            return mover.from_set(sorted_set, some)

        members = job_sets.each(self._redis, self._redis.keys.prefix + sorted_set)
        while raws := [raw for raw, _ in islice(members, _FIRST)]:
            judged = [self._judge.judge(raw, self._server, None) for raw in raws]
            candidates = self._candidates(judged, 0)
            self._act(candidates, sorted_set, move)
            self._count(judged)
            yield

    def _read(self, key: str, place: Passed, count: int) -> tuple[int, list[bytes]]:
        try:
            return queue_walk.read_on_list(self._redis, key, place, count)
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
        self, candidates: Sequence[Candidate], where: str, move: Callable[[Mover, Sequence[Candidate]], list[Outcome]]
    ) -> Mapping[int, tuple[Moves, bytes]]:
        """Move jobs, count them, and answer those that have moved by their positions, with their new bytes."""
        if self._mover is None:
            self._report.relocations.update(_relocation(one.job, where) for one in candidates)
            return {}
        moved: dict[int, tuple[Moves, bytes]] = {}
        for one, outcome in zip(candidates, move(self._mover, candidates), strict=True):
            if outcome.how is Moved.DONE:
                moved[one.position] = (one.job, outcome.raw)
                self._report.relocations[_relocation(one.job, where)] += 1
            elif outcome.how is Moved.GONE:
                self._report.taken += 1
            else:
                self._report.refused += 1
        return moved

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
