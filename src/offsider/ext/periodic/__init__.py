"""Periodic jobs: push jobs on cron schedules, each tick once across all processes.

::

    periodic = Periodic(tz="Europe/Berlin")
    periodic.register("0 3 * * *", clean_up)
    config.use(periodic)
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Unpack

from offsider.config.installation import Installation
from offsider.ext.periodic.cron import Cron
from offsider.ext.periodic.entry import (
    EXTENSION,
    GRACE_SECONDS,
    Entry,
    EntryOptions,
    PeriodicRegistry,
    examine,
    make,
    refuse_problem,
    registered_in,
)
from offsider.ext.periodic.findings import find_periodic
from offsider.ext.periodic.jobs import PeriodicJob, PeriodicJobs, UnknownPeriodicJob
from offsider.ext.periodic.service import PeriodicService, with_options
from offsider.ext.periodic.store import HistoryLine, Servers, digest_of
from offsider.ext.periodic.web import make_tab
from offsider.jobs import registry
from offsider.jobs.routes import RoutedQueue

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.runtime.service import Service

logger = logging.getLogger("offsider")

__all__ = [
    "Cron",
    "Entry",
    "EntryOptions",
    "HistoryLine",
    "Periodic",
    "PeriodicJob",
    "PeriodicJobs",
    "UnknownPeriodicJob",
]


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
        self, cron: str | None = None, job: object = None, *, name: str | None = None, **options: Unpack[EntryOptions]
    ) -> Entry:
        """Push a job at each tick of a cron expression or of an interval.

        ::

            periodic.register("0 3 * * *", clean_up)
            periodic.register(job=ping, every=10)

        Args:
            cron: minute, hour, day, month and day of the week, or ``@hourly``, ``@daily``, ``@midnight``, ``@weekly``,
                ``@monthly``, ``@yearly``, ``@annually``.
            job: a job, or the name of a job of another program.
            name: unique name; default: the job's name. Keep the name when you change the expression.
            options: see `EntryOptions`.

        Raises:
            ConfigurationError: the schedule, time zone or an option is invalid, or the name is taken. A worker raises
                it at the start for arguments that do not fit the job.
        """
        return self.registry.add(make(name, cron, job, options, defaults=self.registry.defaults))

    def install(self, config: Config) -> None:
        """Add a service to each worker, and a tab to the web UI."""
        self.registry.read(config)
        config.queue_sources.append(self._destinations)
        config.services.append(self._service)
        config.info_fields.append(lambda: {EXTENSION: self._digest})
        config.add_web_tab(make_tab())
        config.findings.append(find_periodic)

    def _destinations(self, config: Config) -> Iterator[RoutedQueue]:
        for entry in self.registry.entries.values():
            if entry.queue and registry.peek(entry.job) is not None:  # else a job of another program
                yield RoutedQueue(entry.server_of(config), entry.queue, [entry.job])

    def _service(self, config: Config) -> Service:
        server = Installation.of(config)
        for entry in self.registry.entries.values():
            refuse_problem(entry, config)
        for entry, problem in examine(config):
            if problem:  # it may be declared in another program
                logger.warning("periodic job %r: %s", entry.name, problem)
        entries = list(registered_in(server).values())
        self._digest = digest_of(with_options(entry, config) for entry in entries) if entries else ""
        return PeriodicService(server, entries, Servers.of(server))
