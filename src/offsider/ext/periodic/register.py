"""What is registered in one process: in its code, and in its configuration file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Unpack, cast

from offsider.core.errors import ConfigurationError
from offsider.core.options import JobOptions
from offsider.ext.periodic.cron import zone_of
from offsider.ext.periodic.entry import GRACE_SECONDS, Entry, from_table, make

if TYPE_CHECKING:
    from offsider.wiring.config import Config

EXTENSION = "periodic"


class HasRegister(Protocol):
    """The installed extension, seen from below it."""

    @property
    def register_of_process(self) -> Register: ...


class Register:
    """Entries by name.

    Args:
        tz: the time zone of entries that name none.
        grace_seconds: how late a tick may be claimed, of entries that do not say it.

    Attributes:
        tz, grace_seconds: the same.
        closed: a worker runs with it.
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
        """Register a job; see `Periodic.register`."""
        if self.closed:
            raise ConfigurationError("the worker runs: add periodic jobs with PeriodicJobs().add(…) from now on")
        entry = make(
            name,
            cron,
            job,
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
        """Register what the configuration file has."""
        for name, table in config.periodic.items():
            entry = from_table(name, table, tz=self.tz, grace_seconds=self.grace_seconds)
            if entry is not None:
                self._put(entry)

    def _put(self, entry: Entry) -> None:
        if entry.name in self._entries:
            raise ConfigurationError(f"there are two periodic jobs {entry.name!r}: give one of them another name=")
        self._entries[entry.name] = entry


def register_of(config: Config) -> Register | None:
    """The register of the extension that is installed; None without it."""
    extension: Any = config.extensions.get(EXTENSION)
    return None if extension is None else cast("HasRegister", extension).register_of_process


def entries_of(config: Config) -> Mapping[str, Entry]:
    """What is registered in this process, whichever server its jobs go to."""
    register = register_of(config)
    return {} if register is None else register.entries


def registered_in(config: Config) -> Mapping[str, Entry]:
    """What is registered in this process, of that whose jobs go to the server that ``config`` works for."""
    return {name: entry for name, entry in entries_of(config).items() if entry.home(config) == config.server}


def settings_of(config: Config) -> tuple[str, float]:
    """The time zone and the grace of entries that do not name their own."""
    register = register_of(config)
    return ("UTC", GRACE_SECONDS) if register is None else (register.tz, register.grace_seconds)
