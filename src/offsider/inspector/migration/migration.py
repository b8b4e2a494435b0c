"""`Migration` walks through all places of all servers, page by page."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, combinations, islice
from typing import TYPE_CHECKING, TypeAlias

from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError, RedisFailure, RedisRefused
from offsider.inspector.migration.judge import Judge, Judged, Moves
from offsider.inspector.migration.moving import Mover, Source
from offsider.inspector.migration.report import MigrationReport
from offsider.storage import job_sets, migration, queue_walk, queues
from offsider.storage.job_sets import MoveResult
from offsider.storage.migration import BATCH
from offsider.storage.queue_walk import Place

if TYPE_CHECKING:
    from offsider.config.config import Config

Progress: TypeAlias = Callable[[MigrationReport], object]
#: First and smallest number of jobs of a page, and its approximate size.
_FIRST, _LEAST = 200, 20
_BYTES = 1_000_000


class Migration:
    """Moves queued, scheduled and retried jobs to the queues and servers of the current rules.

    A run that is killed at any point loses no job, and stores none twice if the next run starts within a day. Workers,
    Python's and Ruby's, may take jobs at the same time.

    Args:
        config: rules and servers; default: the configuration of this process. Jobs that it does not declare stay.
        queues, scheduled, retries: places to migrate. Jobs held by an extension count as queued.
        from_queues: only jobs of these queues; default: all.
        names: only jobs of these stored names or aliases; default: all.
        limit: maximum number of jobs to move.
        renames: old queue to new queue. All jobs of these queues move within their server, regardless of the rules.

    Raises:
        ConfigurationError: a name is both an old and a new name.
        InvalidOptions: a new name is not a queue name.
    """

    def __init__(
        self,
        config: Config | Installation | None = None,
        *,
        queues: bool = True,
        scheduled: bool = True,
        retries: bool = True,
        from_queues: Collection[str] = (),
        names: Collection[str] = (),
        limit: int | None = None,
        renames: Mapping[str, str] | None = None,
    ) -> None:
        self._here = Installation.of(config)
        self._judge = Judge(self._here.config, from_queues=from_queues, names=names, renames=renames or {})
        self._from_queues = frozenset(from_queues or renames or ())
        self._queues = queues
        self._sets = [name for name, wanted in (("schedule", scheduled), ("retry", retries)) if wanted]
        self._limit = limit
        self._known: set[str] = set()
        self._stopped = False

    def preview(self, progress: Progress | None = None) -> MigrationReport:
        """Return the report of a migration without moving a job.

        Args:
            progress: called with the report after each page.

        Raises:
            RedisFailure: all servers fail. Otherwise the report names the failed servers.
        """
        report = MigrationReport()
        report.finished = self._waiting(report)
        return self._walk(report, progress, moves=False)

    def run(self, progress: Progress | None = None) -> MigrationReport:
        """Move jobs. Jobs that an earlier migration left in transit are delivered first.

        The report names servers that are unreachable or refuse commands. Jobs that did not move are in their old
        place, and the next run delivers jobs in transit.

        Args:
            progress: called with the report after each page.

        Raises:
            ConfigurationError: jobs are in transit to an unknown server, or two names are the same server.
            RedisFailure: no server responds.
        """
        self._refuse_aliases()
        report = MigrationReport()
        for server in self._here.config.servers:
            with _noting(server, report):
                report.finished += Mover(self._here, server, report.failures).finish()
        self._walk(report, progress, moves=True)
        report.on_their_way = self._waiting(report) if report.failures else 0
        return report

    def _refuse_aliases(self) -> None:
        """Refuse two names of the same server, between which jobs would move forever."""
        for one, other in combinations(self._here.config.servers, 2):
            with suppress(RedisFailure):
                if migration.are_same(self._here.for_server(one).redis, self._here.for_server(other).redis):
                    raise ConfigurationError(f"the servers {one} and {other} are the same server: remove one of them")

    def stop(self) -> None:
        """Stop after the current page. Call it from another thread or a signal handler."""
        self._stopped = True

    def _waiting(self, report: MigrationReport) -> int:
        """Return the number of jobs in transit."""
        waiting = 0
        for server in self._here.config.servers:
            with _noting(server, report):
                redis = self._here.for_server(server).redis
                waiting += sum(migration.waiting(redis, transit) for transit in migration.transits(redis))
        return waiting

    def _walk(self, report: MigrationReport, progress: Progress | None, *, moves: bool) -> MigrationReport:
        finished = 0
        for server in self._here.config.servers:
            walk = Walk(self._here, server, self._judge, report, limit=self._limit, moves=moves)
            with _noting(server, report):
                for _ in chain.from_iterable(map(walk.through, self._sources(server))):
                    if progress is not None:
                        progress(report)
                    if self._stopped or walk.limit_reached:
                        report.complete = False
                        return report
                finished += 1
        report.complete = finished == len(self._here.config.servers)
        if report.failures.keys() == self._here.config.servers.keys() and not (report.looked_at or report.finished):
            raise next(iter(report.failures.values()))
        if report.complete:
            report.unknown_queues = sorted(self._from_queues - self._known - self._judge.met)
        return report

    def _sources(self, server: str) -> Iterator[Source]:
        redis = self._here.for_server(server).redis
        names = queues.names(redis)
        self._known.update(names)
        if self._queues:
            for name in names:
                if not self._from_queues or name in self._from_queues:
                    yield Source(redis.keys.queue(name), "queue", name)
            for key in queues.extension_lists(redis):
                yield Source(key, "held")
        for name in self._sets:
            yield Source(redis.keys.prefix + name, name)


@contextmanager
def _noting(server: str, report: MigrationReport) -> Generator[None]:
    """Record the failure of a server and continue without it."""
    try:
        yield
    except RedisFailure as error:
        report.failures.setdefault(server, error)


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
