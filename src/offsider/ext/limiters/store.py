"""Limiters in Redis. All keys of a limiter share one hash tag, so each of its scripts uses a single hash slot.

=========================================  ======  ==================================  ===========================
key                                        type    written by                          expires
=========================================  ======  ==================================  ===========================
``offsider:limiters``                      zset    first use (limiter -> its expiry)   never (old names are trimmed)
``offsider:limiter:{<kind>:<name>}``       hash    each use (state, statistics)        ``ttl`` of the limiter
``offsider:limiter:{<kind>:<name>}:uses``  list    window: uses inside the window      ``ttl`` of the limiter
``offsider:limiter:{<kind>:<name>}:uses``  zset    concurrent: slots in use            ``ttl`` of the limiter
=========================================  ======  ==================================  ===========================

A member of the first key is ``<kind>:<name>``. A list has at most 1,001 elements, a sorted set as many as the limit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

from offsider.storage.hashes import json_object
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Command, Script

_LUA = files("offsider.ext.limiters") / "lua"
TAKE = Script("take", _LUA)
FREE_SLOT = Script("free_slot", _LUA)
RESET = Script("reset", _LUA)

_KINDS = frozenset({"concurrent", "bucket", "window", "leaky", "points", "unlimited"})
_MAX_NUMBER = 1e15  # above it, scripts cannot compute

TAKEN = 1
REFUSED = -1


@dataclass(frozen=True, slots=True)
class Definition:
    """A limiter as its scripts and the pages need it.

    Attributes:
        kind: ``concurrent``, ``bucket``, ``window``, ``leaky``, ``points`` or ``unlimited``.
        name: unique for its kind.
        limit: slots, uses per interval, size of a leaky bucket, or points; 0 if unlimited.
        interval_seconds: the interval, or the time in which a full leaky bucket drains or all points return.
        wait_timeout_seconds: how long a caller waits.
        lock_timeout_seconds: after this time a slot is reclaimed.
        ttl_seconds: an unused limiter is deleted after this time.
    """

    kind: str
    name: str
    limit: float = 0
    interval_seconds: float = 0.0
    wait_timeout_seconds: float = 0.0
    lock_timeout_seconds: float = 0.0
    ttl_seconds: float = 0.0

    @property
    def member(self) -> str:
        """Its name among limiters of all kinds: ``<kind>:<name>``."""
        return f"{self.kind}:{self.name}"


def index_key(keys: Keys) -> str:
    return f"{keys.prefix}offsider:limiters"


def keys_of(keys: Keys, member: str) -> tuple[str, str]:
    """Return the keys of state and uses of a limiter, given as ``<kind>:<name>``."""
    key = f"{keys.prefix}offsider:limiter:{{{member}}}"
    return key, f"{key}:uses"


def register(keys: Keys, definition: Definition, now: float) -> list[Command]:
    """Return commands that list a limiter, store its definition and forget the names of expired limiters."""
    key, _ = keys_of(keys, definition.member)
    index = index_key(keys)
    return [
        ("HSET", key, "definition", json.dumps(asdict(definition))),
        ("PEXPIRE", key, _ttl_ms(definition)),
        ("ZADD", index, now + definition.ttl_seconds, definition.member),
        ("ZREMRANGEBYSCORE", index, "-inf", now),
    ]


def take(
    redis: Redis,
    definition: Definition,
    amount: float,
    *,
    patience_seconds: float = 0.0,
    waited_seconds: float = 0.0,
    holder: str = "",
) -> tuple[int, int, int]:
    """Take an amount from a limiter; see ``take.lua`` for the reply.

    Args:
        amount: 1 for a slot; 0 only reads.
        patience_seconds: how long the caller can wait; negative to take in any case, also a negative amount.
        waited_seconds: how long it has waited.
        holder: of a slot.
    """
    interval = definition.lock_timeout_seconds if definition.kind == "concurrent" else definition.interval_seconds
    times = _us(interval), _us(patience_seconds), _us(waited_seconds)
    arguments = (definition.kind, amount, definition.limit, *times, _ttl_ms(definition), holder)
    taken, used, wait_us = redis.run(TAKE, keys_of(redis.keys, definition.member), arguments)
    return taken, used, wait_us


def release(redis: Redis, definition: Definition, holder: str) -> bool:
    """Free a slot of a concurrent limiter. False if it was reclaimed."""
    arguments = (holder, _us(definition.lock_timeout_seconds))
    return bool(redis.run(FREE_SLOT, keys_of(redis.keys, definition.member), arguments))


def definition(fields: Mapping[str, str]) -> Definition | None:
    """Return the stored definition; None if the limiter does not exist or another program wrote it."""
    try:
        found: Any = Definition(**json_object(fields.get("definition", "").encode()))
    except TypeError:
        return None
    seconds = (found.interval_seconds, found.wait_timeout_seconds, found.lock_timeout_seconds, found.ttl_seconds)
    readable = all(isinstance(number, int | float) and 0 <= number < _MAX_NUMBER for number in (found.limit, *seconds))
    return found if readable and isinstance(found.name, str) and str(found.kind) in _KINDS else None


def used(redis: Redis, definition: Definition) -> int:
    """Return the slots in use, or the amount that counts toward the limit now, rounded up."""
    return take(redis, definition, 0)[1]


def reset(redis: Redis, member: str) -> bool:
    """Delete the state and the statistics of a limiter. Return False if it does not exist."""
    return bool(redis.run(RESET, keys_of(redis.keys, member)))


def _us(seconds: float) -> int:
    return round(seconds * 1_000_000)


def _ttl_ms(definition: Definition) -> int:
    return round(definition.ttl_seconds * 1000)
