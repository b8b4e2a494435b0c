"""`Migration`: the walk through all places of all servers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain, combinations
from typing import TYPE_CHECKING, TypeAlias

from offsider.core.errors import ConfigurationError, RedisFailure
from offsider.inspector.migration.judge import Judge
from offsider.inspector.migration.moving import Mover
from offsider.inspector.migration.report import MigrationReport
from offsider.inspector.migration.walk import Walk
from offsider.storage import migration, places, queues
from offsider.wiring.default import default_config

if TYPE_CHECKING:
    from offsider.wiring.config import Config

Progress: TypeAlias = Callable[[MigrationReport], object]


class Migration:
    """Moves queued, scheduled and retried jobs to where today's rules want them, on all servers.

    A job is always somewhere: whatever ends this, in whatever moment, no job is lost and none is doubled, and the
    next `run` goes on. Workers, ours and Ruby's, may take jobs meanwhile.

    Args:
        config: its rules and its servers; default: this process's. Jobs that are not declared in this process are left
            alone.
        queues, scheduled, retries: which places to look at. Jobs that an extension has parked count as queued.
        from_queues: only jobs of these queues; default: of all.
        names: only jobs of these stored names or aliases; default: all.
        limit: move so many jobs at most.
        renames: old name of a queue to its new one: then the rules do not matter, and all jobs of these queues move,
            declared or not, within their server.

    Raises:
        ConfigurationError: the renames do not fit together.
        InvalidOptions: a new name is none.
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        queues: bool = True,
        scheduled: bool = True,
        retries: bool = True,
        from_queues: Collection[str] = (),
        names: Collection[str] = (),
        limit: int | None = None,
        renames: Mapping[str, str] | None = None,
    ) -> None:
        self._config = config if config is not None else default_config()
        self._judge = Judge(self._config, from_queues=from_queues, names=names, renames=renames or {})
        self._from_queues = frozenset(from_queues or renames or ())
        self._queues = queues
        self._sets = [name for name, wanted in (("schedule", scheduled), ("retry", retries)) if wanted]
        self._limit = limit
        self._known: set[str] = set()
        self._stopped = False

    def preview(self, progress: Progress | None = None) -> MigrationReport:
        """Look at everything and change nothing.

        Args:
            progress: gets the report now and then.

        Raises:
            RedisFailure: no server answers. When some do, those that do not are in the report.
        """
        report = MigrationReport()
        report.finished = self._waiting(report)
        return self._walk(report, progress, moves=False)

    def run(self, progress: Progress | None = None) -> MigrationReport:
        """Move jobs. What an earlier migration has left on its way arrives first.

        Servers that cannot be reached, or refuse, are told in the report. What has not moved is where it was, and what
        is on its way arrives with the next run.

        Args:
            progress: gets the report now and then.

        Raises:
            ConfigurationError: jobs go to a server that is not configured here, or two names are one server.
            RedisFailure: no server answers.
        """
        self._refuse_aliases()
        report = MigrationReport()
        for server in self._config.servers:
            with _noting(server, report):
                report.finished += Mover(self._config, server, report.failures).finish()
        self._walk(report, progress, moves=True)
        report.on_their_way = self._waiting(report) if report.failures else 0
        return report

    def _refuse_aliases(self) -> None:
        """A job would move from a server to itself, and be met there again, for ever."""
        for one, other in combinations(self._config.servers, 2):
            with suppress(RedisFailure):
                if migration.are_same(self._config.redis_of(one), self._config.redis_of(other)):
                    raise ConfigurationError(f"the servers {one} and {other} are the same one; leave one of them out")

    def stop(self) -> None:
        """End soon, from another thread or a signal handler: jobs that are being moved still arrive."""
        self._stopped = True

    def _waiting(self, report: MigrationReport) -> int:
        """How many jobs are in the journals."""
        waiting = 0
        for server in self._config.servers:
            with _noting(server, report):
                redis = self._config.redis_of(server)
                waiting += sum(migration.waiting(redis, journal) for journal in migration.journals(redis))
        return waiting

    def _walk(self, report: MigrationReport, progress: Progress | None, *, moves: bool) -> MigrationReport:
        for server in self._config.servers:
            walk = Walk(self._config, server, self._judge, report, limit=self._limit, moves=moves)
            gone_through = False
            with _noting(server, report):
                gone_through = self._go_through(walk, server, report, progress)
            report.complete = report.complete and gone_through
            if not gone_through and server not in report.failures:
                return report
        if report.failures.keys() == self._config.servers.keys() and not (report.looked_at or report.finished):
            raise next(iter(report.failures.values()))
        if report.complete:
            report.unknown_queues = sorted(self._from_queues - self._known - self._judge.met)
        return report

    def _go_through(self, walk: Walk, server: str, report: MigrationReport, progress: Progress | None) -> bool:
        """Whether it came to its end, before the limit was reached or somebody called `stop`."""
        for _ in chain.from_iterable(self._places(walk, server)):
            if progress is not None:
                progress(report)
            if self._stopped or walk.limit_reached:
                return False
        return True

    def _places(self, walk: Walk, server: str) -> Iterator[Iterator[None]]:
        for queue in self._chosen_queues(server):
            yield walk.in_queue(queue)
        for key in places.keys_of(self._config.redis_of(server)) if self._queues else ():
            yield walk.in_parking(key)
        for sorted_set in self._sets:
            yield walk.in_set(sorted_set)

    def _chosen_queues(self, server: str) -> list[str]:
        names = queues.names(self._config.redis_of(server))
        self._known.update(names)
        return [name for name in names if self._queues and (not self._from_queues or name in self._from_queues)]


@contextmanager
def _noting(server: str, report: MigrationReport) -> Generator[None]:
    """Go on without a server that fails."""
    try:
        yield
    except RedisFailure as error:
        report.failures.setdefault(server, error)
