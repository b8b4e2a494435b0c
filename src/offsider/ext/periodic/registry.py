"""The periodic jobs registered in one process, in code and in the configuration file, and errors in them.

Nothing here needs Redis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

from offsider.config.installation import Installation
from offsider.config.loading import named_server
from offsider.core.errors import ConfigurationError, OffsiderError, UnknownJob
from offsider.core.suggestions import suggest
from offsider.ext.periodic.cron import zone_of
from offsider.ext.periodic.entry import FILE, GRACE_SECONDS, Entry, from_table
from offsider.ext.periodic.store import EXTENSION
from offsider.jobs import registry
from offsider.jobs.declared import check_all_options

if TYPE_CHECKING:
    from offsider.config.config import Config


class PeriodicRegistry:
    """Periodic jobs by name.

    Args:
        tz: default time zone of entries.
        grace_seconds: default maximum delay of a tick.

    Attributes:
        defaults: ``tz`` and ``grace_seconds``.
    """

    def __init__(self, tz: str = "UTC", grace_seconds: float = GRACE_SECONDS) -> None:
        zone_of(tz)
        self.defaults = tz, grace_seconds
        self._entries: dict[str, Entry] = {}
        self._configs: WeakSet[Config] = WeakSet()

    @property
    def entries(self) -> Mapping[str, Entry]:
        return dict(self._entries)

    def add(self, entry: Entry) -> Entry:
        """Register a job, and return it. Raises ConfigurationError if its name is taken, or a worker runs."""
        if any(config.frozen for config in self._configs):
            raise ConfigurationError("the worker already runs: add periodic jobs with PeriodicJobs().add(…)")
        if entry.name in self._entries:
            raise _duplicate(entry.name)
        self._entries[entry.name] = entry
        return entry

    def read(self, config: Config) -> None:
        """Register the periodic jobs of the configuration file; again, for another configuration of the process."""
        for name, table in config.periodic.items():
            entry = from_table(name, table, self.defaults)
            known = self._entries.get(name)
            if entry is not None and (known is None or known.source == FILE):
                self._entries[name] = entry
            elif entry is not None:
                raise _duplicate(name)
        self._configs.add(config)


def _duplicate(name: str) -> ConfigurationError:
    return ConfigurationError(f"duplicate periodic job {name!r}: give one of them another name=")


def registry_of(config: Config) -> PeriodicRegistry | None:
    """Return the registry of the installed extension; None without it."""
    extension: Any = config.extensions.get(EXTENSION)
    return None if extension is None else cast("PeriodicRegistry", extension.registry)


def entries_of(config: Config) -> Mapping[str, Entry]:
    """Return the entries registered in this process, for all servers."""
    registry = registry_of(config)
    return {} if registry is None else registry.entries


def registered_in(here: Installation) -> Mapping[str, Entry]:
    """Return the entries registered in this process whose jobs go to the server of ``config``."""
    return {name: entry for name, entry in entries_of(here.config).items() if entry.server_of(here.config) == here.name}


def defaults_of(config: Config) -> tuple[str, float]:
    """Return the default time zone and the default maximum delay."""
    registry = registry_of(config)
    return ("UTC", GRACE_SECONDS) if registry is None else registry.defaults


def examine(config: Config, *, foreign: bool = False) -> Sequence[tuple[Entry, str]]:
    """Return the entries registered in this process, for any server, each with its error or an empty string.

    Args:
        config: the configuration with the registry and the extensions, which define job options.
        foreign: accept names of jobs that are not declared here.
    """
    return [(entry, _problem(entry, config, foreign=foreign)) for entry in entries_of(config).values()]


def refuse_problem(entry: Entry, config: Config) -> None:
    """Raise ConfigurationError if an entry cannot work. Jobs may be declared in other programs."""
    problem = _problem(entry, config, foreign=True)
    if problem:
        raise ConfigurationError(f"periodic job {entry.name!r}: {problem}")


def _problem(entry: Entry, config: Config, *, foreign: bool) -> str:
    try:
        named_server(entry.server_of(config), config.servers)
        check_all_options(entry.options, config, job_name=entry.job)
        declared = registry.find(entry.job)
        declared.check(config)
        declared.bind(entry.args, entry.kwargs)
    except UnknownJob:
        if not foreign:
            return f"job {entry.job} is not declared here{suggest(entry.job, registry.names())}"
        return "a job that is not declared here takes no keyword arguments" if entry.kwargs else ""
    except OffsiderError as error:
        return str(error)
    return ""
