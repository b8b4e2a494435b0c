"""Locks of unique jobs in Redis.

===========================  ======  ==================================  ==================================
key                          type    written by                          expires
===========================  ======  ==================================  ==================================
``offsider:unique``          zset    push (locks by their end)           never (pushes remove expired names)
``offsider:unique:<lock>``   string  push                                with the lock, within 30 days
``offsider:throttle:<lock>`` string  push                                after ``throttle``
``offsider:debounce:<lock>`` string  push (the waiting job)              a minute after the job is due
===========================  ======  ==================================  ==================================

``<lock>`` is the name, a hex digest. The value starts with the jid of the holder. After it follow, separated by spaces:
the time the lock was taken in milliseconds, the handling of duplicates (``drop``; ``wanted`` if the job may run once
more for them; ``again`` if it will), and the class of the job.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from offsider.storage import clocks
from offsider.storage.effects import Effect, at_end
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Command, Script

if TYPE_CHECKING:
    from offsider.core.outcome import Outcome

_LUA = files("offsider.ext.unique") / "lua"
STORE = Script("store", _LUA)
RELEASE = Script("release", _LUA)

NOT_OURS, FREED, RUN_AGAIN = 0, 1, 2
PAGE = 200
_TEXT = re.compile(r"(\S+) (\d{1,15}) (drop|wanted|again) (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Held:
    """A stored lock.

    Attributes:
        lock: its name.
        jid, name: jid and class of its holder.
        taken_ms: when it was taken, by the clock of the pushing process.
        left_ms: time until it expires.
        again: duplicates were dropped, so the job runs once more.
    """

    lock: str
    jid: str
    name: str
    taken_ms: int
    left_ms: int
    again: bool


def index_key(keys: Keys) -> str:
    return f"{keys.prefix}offsider:unique"


def lock_key(keys: Keys, lock: str) -> str:
    return f"{keys.prefix}offsider:unique:{lock}"


def pace_key(keys: Keys, kind: str, lock: str) -> str:
    """The key of a lock of ``throttle``, or of the job that ``debounce`` delays."""
    return f"{keys.prefix}offsider:{kind}:{lock}"


def text(jid: str, name: str, taken_ms: int, *, may_run_again: bool = False) -> str:
    """Return the value of a new lock."""
    return f"{jid} {taken_ms} {'wanted' if may_run_again else 'drop'} {name}"


def releasing(keys: Keys, lock: str, jid: str, *, done: Callable[[int | None, Outcome], None] | None = None) -> Effect:
    """Return the effect that frees a job's lock when the job ends for good.

    Args:
        keys: of the server.
        lock: its name.
        jid: of the job.
        done: gets the result of `release`; then the lock of a job that runs once more is kept.
    """
    return Effect(RELEASE, [lock_key(keys, lock), index_key(keys)], at_end(jid, int(done is not None)), done)


def release(redis: Redis, lock: str, jid: str, *, may_run_again: bool = False) -> int:
    """Free a lock if the job holds it. Return `NOT_OURS`, `FREED` or `RUN_AGAIN`.

    Args:
        redis: the server.
        lock: its name.
        jid: of the job.
        may_run_again: keep the lock of a job that runs once more.
    """
    return int(redis.run(RELEASE, [lock_key(redis.keys, lock), index_key(redis.keys)], [jid, int(may_run_again)]))


def count(redis: Redis) -> int:
    """Return the number of locks."""
    return int(redis.call("ZCOUNT", index_key(redis.keys), f"({clocks.look(redis)[0] * 1000:.0f}", "+inf"))


def pages(redis: Redis, size: int = PAGE) -> Iterator[list[Held]]:
    """Yield every lock that exists for the whole iteration, in pages, unordered; some may appear twice."""
    cursor = b"0"
    while True:
        cursor, found = redis.call("ZSCAN", index_key(redis.keys), cursor, "COUNT", size)
        held = read(redis, [name.decode(errors="replace") for name in found[::2]])
        yield [lock for lock in held if lock is not None]
        if cursor == b"0":
            return


def read(redis: Redis, locks: Sequence[str]) -> list[Held | None]:
    """Return locks by name; None for a free lock."""
    commands: list[Command] = []
    for lock in locks:
        key = lock_key(redis.keys, lock)
        commands += (("GET", key), ("PTTL", key))
    replies = redis.pipeline(commands) if commands else []
    return [_held(*given) for given in zip(locks, replies[::2], replies[1::2], strict=True)]


def _held(lock: str, stored: bytes | None, left_ms: Any) -> Held | None:
    match = None if stored is None else _TEXT.fullmatch(stored.decode(errors="replace"))
    if match is None:
        return None
    jid, taken, duplicates, name = match.groups()
    return Held(lock, jid, name, int(taken), max(0, int(left_ms)), duplicates == "again")
