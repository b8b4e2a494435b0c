"""Stores a transferred job once, even if its transfer is repeated.

A transfer moves a job to this server, from another one or from the outbox. The source deletes the job only after this
server has stored it, so a crash in between repeats the transfer. Ordinary pushes do not use this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from offsider.core.errors import RedisRefused
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Call, Script

STORE_ONCE = Script("store_once")
#: For new jobs: a full server refuses it.
PUSH_ONCE = Script("store_once", source=STORE_ONCE.source.replace(" flags=allow-oom", "", 1))

#: Runs the script of a push guard, unless the mark exists.
_GUARDED = """{flags}
local function store(KEYS, ARGV)
{script}
end
local mark, seconds = KEYS[1], ARGV[1]
if redis.call('EXISTS', mark) == 1 then return {{0}} end
table.remove(KEYS, 1)
table.remove(ARGV, 1)
local reply = store(KEYS, ARGV)
if type(reply) == 'table' and reply.err then return reply end
redis.call('SET', mark, 1, 'EX', seconds)
return {{1, reply}}
"""

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


def store_once(redis: Redis, transfers: Sequence[Transfer], script: Script = STORE_ONCE) -> list[RedisRefused | None]:
    """Store the job of each transfer, unless that transfer has stored it in the last day.

    Args:
        redis: the server.
        transfers: the jobs.
        script: `PUSH_ONCE` for new jobs.

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
    replies = redis.run(script, keys, arguments)
    return [RedisRefused(reply.decode("utf-8", "replace")) if isinstance(reply, bytes) else None for reply in replies]


def run_once(redis: Redis, jid: str, hop: str, call: Call) -> tuple[bool, Any]:
    """Run a script that stores one job, unless this transfer has run it in the last day.

    Returns:
        Whether it ran now, and its reply.

    Raises:
        RedisRefused: the script failed; a repetition runs it again.
        RedisUnavailable: the server cannot be reached.
    """
    script, keys, arguments = call
    reply = redis.run(_guarded(script), [redis.keys.stored(jid, hop), *keys], [REMEMBERED_SECONDS, *arguments])
    return bool(reply[0]), reply[-1] if reply[0] else None


@cache
def _guarded(script: Script) -> Script:
    flags, _, rest = script.source.partition("\n")
    return Script(script.name, source=_GUARDED.format(flags=flags, script=rest))
