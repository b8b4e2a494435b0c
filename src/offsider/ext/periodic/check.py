"""Find errors of periodic jobs before their first tick, without Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from offsider.config.checks import named_server
from offsider.core.errors import ConfigurationError, OffsiderError, UnknownJob
from offsider.core.suggestions import suggest
from offsider.ext.periodic.entry import Entry
from offsider.ext.periodic.registry import entries_of
from offsider.jobs import registry

if TYPE_CHECKING:
    from offsider.config.config import Config


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
