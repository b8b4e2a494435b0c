"""Gives the jobs of one dead owner back to their queues.

1. Fence the owner: from now on its claims, beats and settles write nothing. Who only was silent and beats
   again is left alone; a death that was seen needs no silence.
2. A job that was the only one its owner held, and was there at other deaths before, is a poison pill: it is
   buried by those who may, and left in its list for them by those who may not.
3. Move all other jobs to the head of their queues, newest claim first, so that they run in their old order.
   One script moves a batch and gives each a strike; each payload has its ``interrupted_count`` raised.
4. Tell of each job that moved.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from offsider.core.errors import MalformedPayload
from offsider.core.payload import decode
from offsider.core.wording import counted
from offsider.storage import owners, strikes, working
from offsider.wiring.events import JobReclaimed
from offsider.worker.unit_of_work import interrupted

if TYPE_CHECKING:
    from offsider.storage.owners import Lists
    from offsider.storage.redis import Redis
    from offsider.storage.working import Entry

logger = logging.getLogger("offsider")

#: Gets the job, and the processes that died with it; the last one had nothing else.
Bury: TypeAlias = "Callable[[Entry, Sequence[str]], object]"


def reclaim(
    redis: Redis,
    lists: Lists,
    *,
    max_strikes: int = 3,
    proven: bool = False,
    announce: Callable[[JobReclaimed], None] | None = None,
    bury: Bury | None = None,
) -> int | None:
    """Fence an owner and give back its jobs. May be called again when it was cut short.

    Args:
        redis: where the owner's lists are.
        lists: of the owner.
        max_strikes: how many deaths a job may cause, ``worker.max_strikes``; below 1 no job is buried.
        proven: the end of its process was seen (``waitpid``, a pidfd): then it need not have been silent.
        announce: told of each job that is back in its queue.
        bury: buries a poison pill. Without it the pill stays for the next sweep of a live worker, whose
            application knows the callbacks.

    Returns:
        How many jobs moved to their queues; None when the owner lives.

    Raises:
        RedisFailure: the server cannot be reached. What has not moved is found by the next call or sweep.
    """
    if not owners.fence(redis, lists, proven=proven):
        return None
    pill = _poison_pill(redis, lists, max_strikes)
    if pill is not None:
        if bury is not None:
            bury(*pill)
        return 0
    reclaimed = _give_back(redis, lists, announce)
    if reclaimed:
        logger.warning("%s is dead; gave its %s back", lists.identity, counted(reclaimed, "job"))
    return reclaimed


def _poison_pill(redis: Redis, lists: Lists, max_strikes: int) -> tuple[Entry, list[str]] | None:
    if max_strikes < 1 or not strikes.died_alone(redis, lists.identity):
        return None
    entries = owners.newest(redis, lists, 1)
    if len(entries) != 1:  # a late script brought another one: then nobody can tell
        return None
    identities = [*strikes.died_with(redis, entries[0].raw), lists.identity]
    return (entries[0], identities) if len(identities) >= max_strikes else None


def _give_back(redis: Redis, lists: Lists, announce: Callable[[JobReclaimed], None] | None) -> int:
    reclaimed = 0
    while entries := owners.newest(redis, lists, working.BATCH):
        moved: list[bool] = []
        for start in range(0, len(entries), working.BATCH):
            batch = [(entry, interrupted(entry.raw)) for entry in entries[start : start + working.BATCH]]
            done = strikes.reclaim(redis, batch)
            moved += done
            reclaimed += sum(done)
            for (entry, payload), went in zip(batch, done, strict=True):
                if went and announce is not None:
                    announce(JobReclaimed(payload, entry.queue, lists.identity, _count(payload)))
        if not any(moved):
            break
    return reclaimed


def _count(raw: bytes) -> int:
    try:
        return decode(raw).get("interrupted_count", 0)
    except MalformedPayload:
        return 0
