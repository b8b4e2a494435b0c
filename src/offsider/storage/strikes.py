"""Strikes: the processes that died while they held a job, stored for three days by job id.

Only the script that reclaims a job from a dead owner writes a strike. A stop, a deadline, a pause, or an owner that
compares its lists does not. One process gives a job at most one strike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from offsider.core.normalize import normalize
from offsider.core.payload import decode_or_none, encode
from offsider.storage.hashes import scores
from offsider.storage.keys import STRIKE_SECONDS
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, RunsScripts, Script
from offsider.storage.working import REQUEUE, DeadSetLimits, PrivateListEntry

POISON = Script("poison")

_ALONE = b"1 1"


def reclaim(redis: Redis, entries: Sequence[tuple[PrivateListEntry, bytes]]) -> list[bool]:
    """Move jobs of one fenced owner to the head of their queues, each with the payload to store.

    If the owner was not stopping, each job gets a strike.

    Accepts up to `working.BATCH` jobs.

    Returns:
        For each job whether it moved. If not, it is no longer in its list, or its queue refuses it and the job stays
        for a later attempt.

    Raises:
        Fenced: the owner is not fenced.
    """
    identity = entries[0][0].owner.identity
    keys = [redis.keys.fenced(identity), redis.keys.queues]
    arguments: list[Argument] = [identity, STRIKE_SECONDS]
    for entry, payload in entries:
        keys += (_list(redis, entry), redis.keys.queue(entry.queue), redis.keys.strikes(name_of(entry.raw)))
        arguments += (entry.raw, payload, entry.queue)
    return [reply == 1 for reply in redis.run(REQUEUE, keys, arguments)]


def bury(redis: RunsScripts, entry: PrivateListEntry, payload: bytes, limits: DeadSetLimits) -> bool:
    """Move the job that killed its owner into the dead set. False if another process took it.

    Raises:
        Fenced: the owner is not fenced.
    """
    identity = entry.owner.identity
    strikes = redis.keys.strikes(name_of(entry.raw))
    keys = [redis.keys.fenced(identity), _list(redis, entry), redis.keys.dead, strikes]
    arguments: list[Argument] = [identity, STRIKE_SECONDS, entry.raw, payload, limits.timeout_seconds, limits.max_jobs]
    return bool(redis.run(POISON, keys, arguments))


def died_with(redis: Redis, raw: bytes) -> list[str]:
    """Return the processes that died with this job within 72 hours, oldest first."""
    strikes = ("ZRANGE", redis.keys.strikes(name_of(raw)), 0, -1, "WITHSCORES")
    (seconds, _), stored = redis.pipeline([("TIME",), strikes])
    return [identity.decode() for identity, at in scores(stored) if at >= int(seconds) - STRIKE_SECONDS]


def died_alone(redis: Redis, identity: str) -> bool:
    """Whether a fenced owner held exactly one job when it died, which no process has taken since."""
    return bool(redis.call("GET", redis.keys.fenced(identity)) == _ALONE)


def _list(redis: RunsScripts, entry: PrivateListEntry) -> str:
    return redis.keys.working(entry.owner.identity, entry.owner.capsule, entry.queue)


def name_of(raw: bytes) -> str:
    """Return the key name of a job's strikes: its jid, or else a digest that ignores the count of interruptions."""
    payload = decode_or_none(raw)
    if payload is None:
        return hashlib.sha256(raw).hexdigest()
    jid = normalize(payload).get("jid")
    if jid:
        return jid
    payload.pop("interrupted_count", None)
    return hashlib.sha256(encode(payload)).hexdigest()
