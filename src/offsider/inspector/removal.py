"""Removals and moves of stored jobs by operators, with the effects of extensions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from offsider.runtime.events import JobPlaced, JobRemoved
from offsider.storage.effects import Together

if TYPE_CHECKING:
    from offsider.config.installation import Installation
    from offsider.storage.scripts import RunsScripts


def removing(here: Installation, raws: Iterable[bytes], where: str, how: str) -> RunsScripts:
    """Return the server for the script that removes these jobs, in this order: it runs their effects too.

    So a process that dies cannot remove a job without them. Arguments as of `JobRemoved`.
    """
    entries = here.config.removal_effects
    if not entries:
        return here.redis
    removals = (JobRemoved(raw, where, how, here.server) for raw in raws)
    return Together(here.redis, *([effect for entry in entries for effect in entry(one)] for one in removals))


def placing(here: Installation, jobs: Iterable[tuple[bytes, str, float]]) -> RunsScripts:
    """Return the server for the script that moves these jobs, as `removing`. Each as ``raw, to, at`` of `JobPlaced`."""
    entries = here.config.move_effects
    if not entries:
        return here.redis
    placed = (JobPlaced(raw, to, at, here.server) for raw, to, at in jobs)
    return Together(here.redis, *([effect for entry in entries for effect in entry(one)] for one in placed))
