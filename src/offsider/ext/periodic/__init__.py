"""Periodic jobs: pushed at times that cron expressions name, each time once among all processes.

::

    periodic = Periodic(tz="Europe/Berlin")
    periodic.register("0 3 * * *", clean_up)
    config.use(periodic)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from offsider.core.options import JobOptions
from offsider.ext.periodic.cron import Cron
from offsider.ext.periodic.entry import GRACE_SECONDS, Entry
from offsider.ext.periodic.homes import Homes
from offsider.ext.periodic.jobs import PeriodicJob, PeriodicJobs, UnknownPeriodicJob
from offsider.ext.periodic.register import EXTENSION, Register, entries_of, registered_in
from offsider.ext.periodic.service import PeriodicService
from offsider.ext.periodic.store import Line
from offsider.ext.periodic.web import tab

if TYPE_CHECKING:
    from offsider.wiring.config import Config
    from offsider.wiring.service import Service

__all__ = ["Cron", "Entry", "Line", "Periodic", "PeriodicJob", "PeriodicJobs", "UnknownPeriodicJob"]


class Periodic:
    """Extension that pushes jobs periodically. The jobs of ``[periodic.NAME]`` in the configuration file come with it.

    Args:
        tz: the time zone of jobs that name none.
        grace_seconds: how late a tick may be claimed, for example after an outage; what is older is skipped and told.

    Raises:
        ConfigurationError: there is no such zone, or the extra ``periodic`` is not installed.
    """

    name = EXTENSION

    def __init__(self, *, tz: str = "UTC", grace_seconds: float = GRACE_SECONDS) -> None:
        self.register_of_process = Register(tz, grace_seconds)

    def register(
        self,
        cron: str,
        job: object,
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        name: str | None = None,
        tz: str | None = None,
        grace_seconds: float | None = None,
        description: str = "",
        **options: Unpack[JobOptions],
    ) -> Entry:
        """Have a job pushed at each tick of a cron expression.

        Args:
            cron: minute, hour, day, month and day of the week, or ``@hourly``, ``@daily``, ``@midnight``, ``@weekly``,
                ``@monthly``, ``@yearly``, ``@annually``.
            job: a job, or the name of one that lives elsewhere.
            args, kwargs: its arguments.
            name: by which it is known; default: the job's name. Keep it when the expression changes.
            tz: a time zone such as ``"Europe/Berlin"``.
            grace_seconds: how late a tick of this one may be claimed.
            description: shown to people.
            options: of each push, such as ``queue="low"``.

        Raises:
            ConfigurationError: the expression, the zone or an option is wrong, or the name is taken.
        """
        return self.register_of_process.add(
            cron,
            job,
            args=args,
            kwargs=kwargs,
            name=name,
            tz=tz,
            grace_seconds=grace_seconds,
            description=description,
            **options,
        )

    def install(self, config: Config) -> None:
        """A service in each worker, and a tab of the web pages."""
        self.register_of_process.read(config)
        config.add_service(self._service)
        config.add_web_tab(tab())

    def _service(self, config: Config) -> Service:
        self.register_of_process.closed = True
        for entry in entries_of(config).values():
            entry.check_home(config)
        return PeriodicService(config, config.shared_redis(), list(registered_in(config).values()), Homes.of(config))
