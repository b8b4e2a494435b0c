"""Walk through all places of a server, page by page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from offsider.config.installation import Installation
from offsider.core.errors import RedisRefused
from offsider.inspector.migration.judge import Judge, Judged, Moves
from offsider.inspector.migration.moving import Mover, Source
from offsider.inspector.migration.report import MigrationReport
from offsider.storage import job_sets, migration, queue_walk
from offsider.storage.job_sets import MoveResult
from offsider.storage.migration import BATCH
from offsider.storage.queue_walk import Place

#: First and smallest number of jobs of a page, and its approximate size.
_FIRST, _LEAST = 200, 20
_BYTES = 1_000_000


class Walk:
    """Judges the jobs of one server, and moves them.

    Args:
        here: any server of the configuration.
        server: the name of this one.
        judge: decides which jobs move.
        report: counts the jobs.
        limit: maximum number of jobs to move on all servers.
        moves: False for a preview, which only counts.
    """

    def __init__(
        self, here: Installation, server: str, judge: Judge, report: MigrationReport, *, limit: int | None, moves: bool
    ) -> None:
        self._redis = here.for_server(server).redis
        self._server = server
        self._judge = judge
        self._report = report
        self._limit = limit
        self._mover = Mover(here, server, report.failures) if moves else None

    def through(self, source: Source) -> Iterator[None]:
        """Judge the jobs of a place, and yield after each page. A job that stays in place the whole time is judged."""
        is_read_first = self._mover is not None and not source.is_set
        # Read a list first without a change. If a job has to move, `_rotate` starts again and counts the jobs.
        report = MigrationReport() if is_read_first else self._report
        for raws in self._pages(source):
            page = self._judged(raws, source)
            moved = [MoveResult.DONE] * len(page)
            if self._mover is not None and any(isinstance(job, Moves) for job in page):
                if is_read_first:
                    yield from self._rotate(self._mover, source)
                    return
                moved = self._mover.move(source, page)
            report.count(source.where, page, moved)
            yield
        if is_read_first:
            self._report.add(report)

    def _rotate(self, mover: Mover, source: Source) -> Iterator[None]:
        """Rotate a list once: the next job moves away, or to the tail."""
        rotated, first, count = 0, None, _FIRST
        while not self.limit_reached and (raws := migration.next_jobs(self._redis, source.key, count, rotated, first)):
            page = self._judged(raws, source)
            moved = mover.move(source, page)
            self._report.count(source.where, page, moved)
            for job, how in zip(page, moved, strict=True):
                if isinstance(job, Moves) and how is MoveResult.DONE:
                    rotated += source.queue is None and job.there.server == self._server
                elif how is not MoveResult.GONE:
                    rotated += 1
                    first = first or job.raw
            count = _fitting(raws)
            yield

    def _pages(self, source: Source) -> Iterator[list[bytes]]:
        if source.is_set:
            members = job_sets.each(self._redis, source.key)
            while not self.limit_reached and (raws := [raw for raw, _ in islice(members, _FIRST)]):
                yield raws
            return
        place, count = Place(), _FIRST
        while found := self._read(source.key, place, count):
            start, page = found
            yield page
            place, count = place.after(start + len(page), page), _fitting(page)

    def _read(self, key: str, place: Place, count: int) -> tuple[int, list[bytes]] | None:
        try:
            start, raws = queue_walk.read_on(self._redis, key, place, count)
        except RedisRefused as error:
            if error.code != "WRONGTYPE":
                raise
            return None  # a key of another type contains no jobs
        return (start, raws) if raws else None

    @property
    def limit_reached(self) -> bool:
        return self._left == 0

    @property
    def _left(self) -> int | None:
        return None if self._limit is None else max(0, self._limit - self._report.moved)

    def _judged(self, raws: Sequence[bytes], source: Source) -> list[Judged]:
        """Judge jobs, up to the last one that may move."""
        page = [self._judge.judge(raw, self._server, source.queue) for raw in raws]
        moves = [at for at, job in enumerate(page) if isinstance(job, Moves)]
        return page if self._left is None or len(moves) <= self._left else page[: moves[self._left]]


def _fitting(raws: Sequence[bytes]) -> int:
    """Return the page size for jobs of this size."""
    return max(_LEAST, min(BATCH, _BYTES * len(raws) // sum(map(len, raws))))
