"""Removals of stored jobs that do not run, and moves by operators, with the effects of extensions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from offsider.runtime.events import JobPlaced, JobRemoved
from offsider.storage.effects import Effect, Together

if TYPE_CHECKING:
    from offsider.config.installation import Installation
    from offsider.storage.scripts import RunsScripts


def effects_of(server: Installation, news: JobRemoved) -> list[Effect]:
    """Return the effects of a removal; they run in the script that removes the job.

    So a process that dies cannot remove a job without them. Raises RedisFailure.
    """
    return [effect for entry in server.config.removal_effects for effect in entry(news)]


def removing(server: Installation, raws: Iterable[bytes], where: str, how: str) -> RunsScripts:
    """Return the server for the script that removes these jobs, in this order: it runs their effects too.

    Arguments as of `JobRemoved`.
    """
    if not server.config.removal_effects:
        return server.redis
    return Together(server.redis, *(effects_of(server, JobRemoved(raw, where, how, server.name)) for raw in raws))


def placing(server: Installation, jobs: Iterable[tuple[bytes, str, float]]) -> RunsScripts:
    """Return the server for the script that moves these jobs, as `removing`. Each as ``raw, to, at`` of `JobPlaced`."""
    entries = server.config.move_effects
    if not entries:
        return server.redis
    placed = (JobPlaced(raw, to, at, server.name) for raw, to, at in jobs)
    return Together(server.redis, *([effect for entry in entries for effect in entry(one)] for one in placed))
