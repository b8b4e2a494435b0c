"""Periodic jobs: push jobs on cron schedules, each tick once across all processes.

::

    periodic = Periodic(tz="Europe/Berlin")
    periodic.register("0 3 * * *", clean_up)
    config.use(periodic)
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack

from offsider.config.installation import Installation
from offsider.config.shards import RoutedQueue
from offsider.core.options import JobOptions
from offsider.ext.periodic.cron import Cron
from offsider.ext.periodic.entry import GRACE_SECONDS, Entry, make
from offsider.ext.periodic.jobs import PeriodicJob, PeriodicJobs, UnknownPeriodicJob
from offsider.ext.periodic.registry import (
    PeriodicRegistry,
    entries_of,
    examine,
    refuse_problem,
    registered_in,
)
from offsider.ext.periodic.service import PeriodicService, with_options
from offsider.ext.periodic.store import EXTENSION, HistoryLine, Servers, digest_of
from offsider.ext.periodic.web import tab
from offsider.jobs import registry

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.runtime.service import Service

logger = logging.getLogger("offsider")

__all__ = ["Cron", "Entry", "HistoryLine", "Periodic", "PeriodicJob", "PeriodicJobs", "UnknownPeriodicJob"]


class Periodic:
    """Extension that pushes jobs on a schedule, including jobs of ``[periodic.NAME]`` in the configuration file.

    Args:
        tz: default time zone of jobs.
        grace_seconds: maximum delay of a tick, for example after an outage. Older ticks are skipped and logged.

    Attributes:
        registry: the registered periodic jobs.

    Raises:
        ConfigurationError: unknown time zone, or the extra ``periodic`` is not installed.
    """

    name = EXTENSION

    def __init__(self, *, tz: str = "UTC", grace_seconds: float = GRACE_SECONDS) -> None:
        self.registry = PeriodicRegistry(tz, grace_seconds)
        self._digest = ""

    def register(
        self,
        cron: str | None = None,
        job: object = None,
        *,
        every: float | timedelta | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        name: str | None = None,
        tz: str | None = None,
        grace_seconds: float | None = None,
        description: str = "",
        **options: Unpack[JobOptions],
    ) -> Entry:
        """Push a job at each tick of a cron expression or of an interval.

        ::

            periodic.register("0 3 * * *", clean_up)
            periodic.register(job=ping, every=10)

        Args:
            cron: minute, hour, day, month and day of the week, or ``@hourly``, ``@daily``, ``@midnight``, ``@weekly``,
                ``@monthly``, ``@yearly``, ``@annually``.
            job: a job, or the name of a job of another program.
            every: whole seconds or a timedelta between ticks, instead of ``cron``. Ticks are the multiples since the
                epoch: ``every=10`` runs at :00, :10, :20 of each minute.
            args, kwargs: its arguments.
            name: unique name; default: the job's name. Keep the name when you change the expression.
            tz: a time zone such as ``"Europe/Berlin"``.
            grace_seconds: maximum delay of a tick of this job.
            description: shown in the web UI and the command line.
            options: of each push, such as ``queue="low"``.

        Raises:
            ConfigurationError: the schedule, time zone or an option is invalid, or the name is taken. A worker raises
                it at the start for arguments that do not fit the job.
        """
        return self.registry.add(
            make(
                name,
                cron,
                job,
                every=every,
                options=options,
                args=tuple(args),
                kwargs=dict(kwargs or {}),
                tz=tz,
                grace_seconds=grace_seconds,
                description=description,
                defaults=self.registry.defaults,
            )
        )

    def install(self, config: Config) -> None:
        """Add a service to each worker, and a tab to the web UI."""
        self.registry.read(config)
        config.queue_sources.append(self._destinations)
        config.add_service(self._service)
        config.add_info(lambda: {EXTENSION: self._digest})
        config.add_web_tab(tab())

    def _destinations(self, config: Config) -> Iterator[RoutedQueue]:
        for entry in self.registry.entries.values():
            if entry.queue and registry.peek(entry.job) is not None:  # else a job of another program
                yield RoutedQueue(entry.server_of(config), entry.queue, [entry.job])

    def _service(self, config: Config) -> Service:
        here = Installation.of(config)
        for entry in entries_of(config).values():
            refuse_problem(entry, config)
        for entry, problem in examine(config):
            if problem:  # it may be declared in another program
                logger.warning("periodic job %r: %s", entry.name, problem)
        entries = list(registered_in(here).values())
        self._digest = digest_of(with_options(entry, config) for entry in entries) if entries else ""
        return PeriodicService(here, entries, Servers.of(here))
