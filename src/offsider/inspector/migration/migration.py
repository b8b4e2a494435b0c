"""`Migration` walks through all places of all servers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain, combinations
from typing import TYPE_CHECKING, TypeAlias

from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError, RedisFailure
from offsider.inspector.migration.judge import Judge
from offsider.inspector.migration.moving import Mover, Source
from offsider.inspector.migration.report import MigrationReport
from offsider.inspector.migration.walk import Walk
from offsider.storage import migration, queues

if TYPE_CHECKING:
    from offsider.config.config import Config

Progress: TypeAlias = Callable[[MigrationReport], object]


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
