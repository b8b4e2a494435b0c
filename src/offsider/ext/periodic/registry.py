"""The periodic jobs registered in one process: in code and in the configuration file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, Unpack, cast

from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError
from offsider.core.options import JobOptions
from offsider.ext.periodic.cron import zone_of
from offsider.ext.periodic.entry import GRACE_SECONDS, Entry, from_table, make

if TYPE_CHECKING:
    from offsider.config.config import Config

EXTENSION = "periodic"


class HasRegistry(Protocol):
    """The part of the installed extension that this module needs."""

    @property
    def registry(self) -> PeriodicRegistry: ...


class PeriodicRegistry:
    """Periodic jobs by name.

    Args:
        tz: default time zone of entries.
        grace_seconds: default maximum delay of a tick.

    Attributes:
        tz, grace_seconds: as passed.
        closed: a worker runs, so no job can be registered.
    """

    def __init__(self, tz: str = "UTC", grace_seconds: float = GRACE_SECONDS) -> None:
        zone_of(tz)
        self.tz = tz
        self.grace_seconds = grace_seconds
        self.closed = False
        self._entries: dict[str, Entry] = {}

    @property
    def entries(self) -> Mapping[str, Entry]:
        return dict(self._entries)

    def add(
        self,
        cron: str | None,
        job: object,
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
        """Register a job. See `Periodic.register`."""
        if self.closed:
            raise ConfigurationError("the worker already runs: add periodic jobs with PeriodicJobs().add(…)")
        entry = make(
            name,
            cron,
            job,
            every=every,
            options=cast("Mapping[str, Any]", options),
            tz=self.tz if tz is None else tz,
            grace_seconds=self.grace_seconds if grace_seconds is None else grace_seconds,
            args=tuple(args),
            kwargs=dict(kwargs or {}),
            description=description,
        )
        self._put(entry)
        return entry

    def read(self, config: Config) -> None:
        """Register the periodic jobs of the configuration file."""
        for name, table in config.periodic.items():
            entry = from_table(name, table, tz=self.tz, grace_seconds=self.grace_seconds)
            if entry is not None:
                self._put(entry)

    def _put(self, entry: Entry) -> None:
        if entry.name in self._entries:
            raise ConfigurationError(f"duplicate periodic job {entry.name!r}: give one of them another name=")
        self._entries[entry.name] = entry


def registry_of(config: Config) -> PeriodicRegistry | None:
    """Return the registry of the installed extension; None without it."""
    extension: Any = config.extensions.get(EXTENSION)
    return None if extension is None else cast("HasRegistry", extension).registry


def entries_of(config: Config) -> Mapping[str, Entry]:
    """Return the entries registered in this process, for all servers."""
    registry = registry_of(config)
    return {} if registry is None else registry.entries


def registered_in(here: Installation) -> Mapping[str, Entry]:
    """Return the entries registered in this process whose jobs go to the server of ``config``."""
    return {
        name: entry for name, entry in entries_of(here.config).items() if entry.server_of(here.config) == here.server
    }


def settings_of(config: Config) -> tuple[str, float]:
    """Return the default time zone and the default maximum delay."""
    registry = registry_of(config)
    return ("UTC", GRACE_SECONDS) if registry is None else (registry.tz, registry.grace_seconds)
