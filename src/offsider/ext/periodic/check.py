"""Find errors of periodic jobs before their first tick, without Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from offsider.config.suggestions import suggest
from offsider.core.errors import OffsiderError, UnknownJob
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


def _problem(entry: Entry, config: Config, *, foreign: bool) -> str:
    try:
        entry.check_server(config)
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
