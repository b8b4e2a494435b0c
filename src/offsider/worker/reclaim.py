"""Gives the jobs of one dead owner back to their queues.

1. Fence the owner: from now on its claims, beats and settles write nothing. Who only was silent and beats
   again is left alone; a death that was seen needs no silence.
2. Move its jobs to the head of their queues, newest claim first, so that they run in their old order. One
   script moves a batch; each payload has its ``interrupted_count`` raised.
3. Tell of each job that moved.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from offsider.core.errors import MalformedPayload
from offsider.core.payload import decode
from offsider.storage import owners, working
from offsider.wiring.events import JobReclaimed
from offsider.worker.unit_of_work import interrupted

if TYPE_CHECKING:
    from offsider.storage.owners import Lists
    from offsider.storage.redis import Redis

logger = logging.getLogger("offsider")


def reclaim(
    redis: Redis,
    lists: Lists,
    *,
    proven: bool = False,
    announce: Callable[[JobReclaimed], None] | None = None,
) -> int | None:
    """Fence an owner and give back its jobs. May be called again when it was cut short.

    Args:
        redis: where the owner's lists are.
        lists: of the owner.
        proven: the end of its process was seen (``waitpid``, a pidfd): then it need not have been silent.
        announce: told of each job that is back in its queue.

    Returns:
        How many jobs moved; None when the owner lives.

    Raises:
        RedisFailure: the server cannot be reached. What has not moved is found by the next call or sweep.
    """
    if not owners.fence(redis, lists, proven=proven):
        return None
    reclaimed = 0
    while entries := owners.newest(redis, lists, working.BATCH):
        payloads = [interrupted(entry.raw) for entry in entries]
        moved = working.put_back(redis, list(zip(entries, payloads, strict=True)), reclaiming=True)
        for entry, payload, done in zip(entries, payloads, moved, strict=True):
            if done:
                reclaimed += 1
                if announce is not None:
                    announce(JobReclaimed(payload, entry.queue, lists.identity, _count(payload)))
        if not any(moved):
            break
    if reclaimed:
        logger.warning("%s is dead; gave its %d jobs back to their queues", lists.identity, reclaimed)
    return reclaimed


def _count(raw: bytes) -> int:
    try:
        return decode(raw).get("interrupted_count", 0)
    except MalformedPayload:
        return 0
