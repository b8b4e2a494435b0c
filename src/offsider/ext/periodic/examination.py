"""What would go wrong at a tick, found before there is one and without Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from offsider.core.errors import OffsiderError, UnknownJob
from offsider.ext.periodic.entry import Entry
from offsider.ext.periodic.register import entries_of
from offsider.jobs import registry
from offsider.wiring.nearest import suggest

if TYPE_CHECKING:
    from offsider.wiring.config import Config


def examine(config: Config, *, foreign: bool = False) -> Sequence[tuple[Entry, str]]:
    """What is registered in this process, for any server, each with what is wrong with it, or an empty text.

    Args:
        config: whose register, and whose extensions know options of jobs.
        foreign: names of jobs that nobody has declared here are right: they live elsewhere.
    """
    return [(entry, _problem(entry, config, foreign=foreign)) for entry in entries_of(config).values()]


def _problem(entry: Entry, config: Config, *, foreign: bool) -> str:
    try:
        entry.check_home(config)
        declared = registry.find(entry.job)
        declared.check(config)
        declared.bind(entry.args, entry.kwargs)
    except UnknownJob:
        if not foreign:
            return f"no job {entry.job} is declared here{suggest(entry.job, registry.names())}"
        return "arguments by name do not reach a job that is not declared here" if entry.kwargs else ""
    except OffsiderError as error:
        return str(error)
    return ""
