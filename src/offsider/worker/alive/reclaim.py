"""Requeues the jobs of one dead owner.

1. Fence the owner: from now on its claims, beats and settlements write nothing. An owner that was only silent and
   beats again is left alone; a proven death needs no silence.
2. Remove the process from Sidekiq's registry, which would show it and its running jobs for up to a minute.
3. A job that was the owner's only one, and was present at earlier deaths, is a poison pill. A worker moves it to the
   dead set; a parent process may not, and leaves it in its list.
4. Move all other jobs to the head of their queues, newest claim first, so that they run in their original order.
   One script moves a batch and adds a strike to each job; each payload's ``interrupted_count`` is incremented.
5. Log and announce each job that moved.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from offsider.core.normalize import normalize
from offsider.core.payload import decode_or_none, interrupted
from offsider.core.wording import counted
from offsider.runtime.events import JobReclaimed
from offsider.storage import owners, processes, strikes, working
from offsider.worker.requeued import RequeueLog

if TYPE_CHECKING:
    from offsider.storage.owners import Lists
    from offsider.storage.redis import Redis
    from offsider.storage.working import PrivateListEntry

logger = logging.getLogger("offsider")

#: Receives the job, and the processes that died after they had claimed it; the last one had no other job.
Bury: TypeAlias = "Callable[[PrivateListEntry, Sequence[str]], object]"


def reclaim(
    redis: Redis,
    lists: Lists,
    *,
    max_strikes: int = 3,
    how: str = "",
    announce: Callable[[JobReclaimed], None] | None = None,
    bury: Bury | None = None,
) -> int | None:
    """Fence an owner and requeue its jobs. Call it again after an error; it continues where it stopped.

    Args:
        redis: server of the owner's lists.
        lists: the owner's lists.
        max_strikes: deaths after which a job is buried, ``worker.max_strikes``; below 1 no job is buried.
        how: how its process ended, if that was detected (``waitpid``): then the owner need not have been silent.
        announce: called for each requeued job.
        bury: moves a poison pill to the dead set. Without it the pill stays for the next sweep of a live worker, which
            has the application's callbacks.

    Returns:
        Number of requeued jobs; None if the owner is alive.

    Raises:
        RedisFailure: the server cannot be reached. The next call or sweep finds the remaining jobs.
    """
    if not owners.fence(redis, lists, how=how):
        return None
    processes.leave(redis, lists.identity)
    pill = _poison_pill(redis, lists, max_strikes)
    if pill is not None:
        if bury is not None:
            bury(*pill)
        return 0
    reclaimed = _give_back(redis, lists, announce)
    if reclaimed:
        logger.warning("%s is dead; requeued its %s", lists.identity, counted(reclaimed, "job"))
    return reclaimed


def _poison_pill(redis: Redis, lists: Lists, max_strikes: int) -> tuple[PrivateListEntry, list[str]] | None:
    if max_strikes < 1 or not strikes.died_alone(redis, lists.identity):
        return None
    entries = owners.newest(redis, lists, 1)
    if len(entries) != 1:  # a late script delivered another one, so the culprit is unknown
        return None
    identities = [*strikes.died_with(redis, entries[0].raw), lists.identity]
    return (entries[0], identities) if len(identities) >= max_strikes else None


def _give_back(redis: Redis, lists: Lists, announce: Callable[[JobReclaimed], None] | None) -> int:
    log = RequeueLog(f"{lists.identity} is dead")
    while entries := owners.newest(redis, lists, working.BATCH):
        moved: list[bool] = []
        for start in range(0, len(entries), working.BATCH):
            batch = [(entry, interrupted(entry.raw)) for entry in entries[start : start + working.BATCH]]
            done = strikes.reclaim(redis, batch)
            moved += done
            for (entry, payload), went in zip(batch, done, strict=True):
                if went:
                    log.add(payload, entry.queue)
                    if announce is not None:
                        announce(JobReclaimed(payload, entry.queue, lists.identity, _count(payload)))
        if not any(moved):
            break
    return log.count


def _count(raw: bytes) -> int:
    payload = decode_or_none(raw)
    return 0 if payload is None else normalize(payload).get("interrupted_count", 0)
