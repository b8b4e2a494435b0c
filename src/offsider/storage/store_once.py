"""Stores a transferred job once, even if its transfer is repeated.

A transfer moves a job to this server, for example from another one. The source deletes the job only after this server
has stored it, so a crash in between repeats the transfer. Ordinary pushes do not use this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offsider.core.errors import RedisRefused
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Script

STORE_ONCE = Script("store_once")

#: Expiry of the mark of a transfer. A repetition after that stores the job again.
REMEMBERED_SECONDS = 86_400
QUEUE = "queue:"


@dataclass(frozen=True, slots=True)
class Transfer:
    """A job in transit.

    Attributes:
        jid, hop: together they identify the transfer; each new transfer of a job has another ``hop``.
        where: ``queue:<name>``, or the name of a sorted set.
        payload: the bytes to store.
        score: score in the set; empty for a queue.
    """

    jid: str
    hop: str
    where: str
    payload: bytes
    score: str = ""


def store_once(redis: Redis, transfers: Sequence[Transfer]) -> list[RedisRefused | None]:
    """Store the job of each transfer, unless that transfer has stored it in the last day.

    Returns:
        For each transfer None, or why its queue or set refuses the job. The message names the key.

    Raises:
        RedisFailure: the server cannot be reached, or refuses all jobs.
    """
    keys = [redis.keys.queues]
    arguments: list[Argument] = [REMEMBERED_SECONDS]
    for one in transfers:
        keys += (redis.keys.stored(one.jid, one.hop), redis.keys.prefix + one.where)
        arguments += (one.where.removeprefix(QUEUE) if one.where.startswith(QUEUE) else "", one.score, one.payload)
    replies = redis.run(STORE_ONCE, keys, arguments)
    return [RedisRefused(reply.decode("utf-8", "replace")) if isinstance(reply, bytes) else None for reply in replies]
