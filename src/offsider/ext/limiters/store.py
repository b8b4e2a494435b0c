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
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

from offsider.storage import clocks, job_sets
from offsider.storage.hashes import json_object, texts
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Call, Command, Script

_LUA = files("offsider.ext.limiters") / "lua"
TAKE_AMOUNT = Script("take_amount", _LUA)
TAKE_SLOT = Script("take_slot", _LUA)
FREE_SLOT = Script("free_slot", _LUA)
RESET = Script("reset", _LUA)

_KINDS = frozenset({"concurrent", "bucket", "window", "leaky", "points", "unlimited"})
_MOST = 1e15  # above it, scripts cannot compute

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


def take(keys: Keys, definition: Definition, amount: float, patience_seconds: float, waited_seconds: float) -> Call:
    """Return the call that takes an amount from a limiter of any kind but concurrent; see ``take_amount.lua``."""
    times = _us(definition.interval_seconds), _us(patience_seconds), _us(waited_seconds)
    arguments = (definition.kind, amount, definition.limit, *times, _ttl_ms(definition))
    return TAKE_AMOUNT, keys_of(keys, definition.member), arguments


def correct(keys: Keys, definition: Definition, amount: float) -> Call:
    """Return the call that adds an amount whatever the limit is; a negative one gives points back."""
    arguments = (definition.kind, amount, definition.limit, _us(definition.interval_seconds), -1, 0)
    return TAKE_AMOUNT, keys_of(keys, definition.member), (*arguments, _ttl_ms(definition))


def acquire(keys: Keys, definition: Definition, holder: str, patience_seconds: float, waited_seconds: float) -> Call:
    """Return the call that takes a slot of a concurrent limiter; see ``take_slot.lua``."""
    times = _us(definition.lock_timeout_seconds), _us(patience_seconds), _us(waited_seconds)
    return TAKE_SLOT, keys_of(keys, definition.member), (holder, definition.limit, *times, _ttl_ms(definition))


def release(keys: Keys, definition: Definition, holder: str) -> Call:
    """Return the call that frees a slot of a concurrent limiter. It returns 0 if the slot was reclaimed."""
    return FREE_SLOT, keys_of(keys, definition.member), (holder, _us(definition.lock_timeout_seconds))


def members(redis: Redis, start: int, count: int) -> list[str]:
    """Return up to ``count`` limiters, the one that expires last first, without the first ``start`` ones."""
    if count < 1:
        return []
    found = redis.call("ZRANGE", index_key(redis.keys), start, start + count - 1, "REV")
    return [member.decode(errors="replace") for member in found]


def scan_members(redis: Redis, text: str, cursor: str, step: int) -> tuple[str, list[str]]:
    """Scan about ``step`` limiters for a text, in no order. Return the next cursor, empty at the end, and matches."""
    cursor, found = job_sets.scan_on(redis, index_key(redis.keys), text, cursor, step)
    return cursor, [member.decode(errors="replace") for member, _ in found]


def count(redis: Redis) -> int:
    """Return the number of limiters, including some that expired lately."""
    return int(redis.call("ZCARD", index_key(redis.keys)))


def fields(redis: Redis, members: Sequence[str]) -> list[Mapping[str, str]]:
    """Return the stored fields of limiters; an empty mapping for a limiter that does not exist."""
    commands = [("HGETALL", keys_of(redis.keys, member)[0]) for member in members]
    replies = redis.pipeline(commands, raise_errors=False) if commands else []
    return [dict(texts(reply)) for reply in replies]


def definition(fields: Mapping[str, str]) -> Definition | None:
    """Return the stored definition; None if the limiter does not exist or another program wrote it."""
    try:
        found: Any = Definition(**json_object(fields.get("definition", "").encode()))
    except TypeError:
        return None
    numbers = (found.limit, found.interval_seconds, found.wait_timeout_seconds, found.lock_timeout_seconds)
    readable = all(isinstance(number, int | float) and 0 <= number < _MOST for number in (*numbers, found.ttl_seconds))
    return found if readable and isinstance(found.name, str) and str(found.kind) in _KINDS else None


def used(redis: Redis, definition: Definition) -> int:
    """Return the slots in use, or the amount that counts toward the limit now, rounded up."""
    if definition.kind == "concurrent":
        _, slots = keys_of(redis.keys, definition.member)
        return int(redis.call("ZCOUNT", slots, f"({_us(clocks.look(redis)[0])}", "+inf"))
    return int(redis.run(*take(redis.keys, definition, 0, 0.0, 0.0))[1])


def reset(redis: Redis, member: str) -> bool:
    """Delete the state and the statistics of a limiter. Return False if it does not exist."""
    return bool(redis.run(RESET, keys_of(redis.keys, member)))


def delete(redis: Redis, member: str) -> bool:
    """Delete a limiter; its next use creates it again. Return False if it does not exist."""
    deleted, _ = redis.pipeline([("DEL", *keys_of(redis.keys, member)), ("ZREM", index_key(redis.keys), member)])
    return bool(deleted)


def _us(seconds: float) -> int:
    return round(seconds * 1_000_000)


def _ttl_ms(definition: Definition) -> int:
    return round(definition.ttl_seconds * 1000)
