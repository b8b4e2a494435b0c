"""Strikes: which processes died while they held a job, kept for three days beside the job's id.

A strike is written by the script that takes the job back from a dead owner, and by nothing else: not by a
stop, a deadline, a pause, nor by an owner that compares its lists. One process gives a job one strike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from offsider.core.errors import MalformedPayload
from offsider.core.payload import decode, encode
from offsider.storage.keys import STRIKE_SECONDS
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Script
from offsider.storage.working import DeadSetLimits, Entry

RECLAIM = Script("reclaim")
POISON = Script("poison")
STRIKES = Script("strikes")
PUT_LAST = Script("put_last")

_ALONE = b"1 1"


def reclaim(redis: Redis, entries: Sequence[tuple[Entry, bytes]]) -> list[bool]:
    """Move jobs of one fenced owner to the head of their queues, each with a strike and the payload to store.

    At most `working.BATCH` at a time.

    Returns:
        For each job whether it moved. One that did not is no longer in its list, or its queue refuses it and it
        stays for a later look.

    Raises:
        Fenced: the owner is not.
    """
    identity = entries[0][0].owner.identity
    keys = [redis.keys.fenced(identity), redis.keys.queues]
    arguments: list[Argument] = [identity, STRIKE_SECONDS]
    for entry, payload in entries:
        keys += (_list(redis, entry), redis.keys.queue(entry.queue), redis.keys.strikes(_name(entry.raw)))
        arguments += (entry.raw, payload, entry.queue)
    return [reply == 1 for reply in redis.run(RECLAIM, keys, arguments)]


def bury(redis: Redis, entry: Entry, payload: bytes, limits: DeadSetLimits) -> bool:
    """Move the job that killed its owner into the dead set; False when somebody else took it.

    Raises:
        Fenced: the owner is not.
    """
    identity = entry.owner.identity
    strikes = redis.keys.strikes(_name(entry.raw))
    keys = [redis.keys.fenced(identity), _list(redis, entry), redis.keys.dead, strikes]
    arguments: list[Argument] = [identity, STRIKE_SECONDS, entry.raw, payload, limits.timeout_seconds, limits.max_jobs]
    return bool(redis.run(POISON, keys, arguments))


def died_with(redis: Redis, raw: bytes) -> list[str]:
    """The processes that died while they held this job, within 72 hours; the latest is the last."""
    return [identity.decode() for identity in redis.run(STRIKES, [redis.keys.strikes(_name(raw))], [STRIKE_SECONDS])]


def died_alone(redis: Redis, identity: str) -> bool:
    """Whether a fenced owner held one job in all when it died, which nobody has taken since."""
    return bool(redis.call("GET", redis.keys.fenced(identity)) == _ALONE)


def put_last(redis: Redis, entry: Entry) -> bool:
    """The owner sends a job to the far end of its queue; False when the job is no longer its own.

    Raises:
        Fenced: the owner was declared dead.
    """
    keys = redis.keys
    own = [keys.fenced(entry.owner.identity), _list(redis, entry)]
    return bool(redis.run(PUT_LAST, [*own, keys.queue(entry.queue), keys.queues], [entry.raw, entry.queue]))


def _list(redis: Redis, entry: Entry) -> str:
    return redis.keys.working(entry.owner.identity, entry.owner.capsule, entry.queue)


def _name(raw: bytes) -> str:
    """What strikes are kept under: the jid, else a digest that an interruption more does not change."""
    try:
        payload = decode(raw)
    except MalformedPayload:
        return hashlib.sha256(raw).hexdigest()
    jid = payload.get("jid")
    if jid is not None:
        return jid
    payload.pop("interrupted_count", None)
    return hashlib.sha256(encode(payload)).hexdigest()
