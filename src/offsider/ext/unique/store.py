"""The locks in Redis, and every call that touches them.

===========================  ======  ==================================  ==================================
key                          type    written by                          expires
===========================  ======  ==================================  ==================================
``offsider:unique``          set     push (the names of all locks)       never (the reaper takes old names out)
``offsider:unique:<lock>``   string  push, the beginning of a run        with the lock
===========================  ======  ==================================  ==================================

``<lock>`` is its name, a digest in hex. A lock begins with the jid that holds it; then come, between blanks, when it
was taken, when its job last began to run or 0 (both in milliseconds), what duplicates do (``drop``, ``wanted`` when
the job may run once more for them, ``again`` when it will), and the class of the job.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Command, Script

_LUA = files("offsider.ext.unique.lua")
STORE = Script("store", _LUA)
RELEASE = Script("release", _LUA)
BEGIN = Script("begin", _LUA)
FORGET = Script("forget", _LUA)
TAKE_OVER = Script("take_over", _LUA)

NOT_OURS, FREED, RUN_AGAIN = 0, 1, 2
PAGE = 200
_TEXT = re.compile(r"(\S+) (\d{1,15}) (\d{1,15}) (drop|wanted|again) (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Held:
    """A lock as it is in Redis.

    Attributes:
        lock: its name.
        jid, name: of the job that holds it.
        taken_ms: when it was taken, by the clock of who pushed.
        left_ms: until it ends by itself.
        moved: when it was taken and when its job last began to run, as it is stored.
        moved_ms: the later of both.
        again: duplicates were dropped, and the job shall run once more.
    """

    lock: str
    jid: str
    name: str
    taken_ms: int
    left_ms: int
    moved: str
    moved_ms: int
    again: bool


def index_key(keys: Keys) -> str:
    return f"{keys.prefix}offsider:unique"


def lock_key(keys: Keys, lock: str) -> str:
    return f"{keys.prefix}offsider:unique:{lock}"


def text(jid: str, name: str, taken_ms: int, *, may_run_again: bool = False) -> str:
    """What a lock holds when it is taken."""
    return f"{jid} {taken_ms} 0 {'wanted' if may_run_again else 'drop'} {name}"


def begin(redis: Redis, lock: str, jid: str) -> bool:
    """Note that the job begins to run; False when the lock is not its."""
    return bool(redis.run(BEGIN, [lock_key(redis.keys, lock)], [jid]))


def release(redis: Redis, lock: str, jid: str, *, may_run_again: bool = False, moved: str = "") -> int:
    """Free a lock if it is the job's: `NOT_OURS`, `FREED` or `RUN_AGAIN`.

    Args:
        redis: where it is.
        lock: its name.
        jid: of the job.
        may_run_again: the lock of a job that shall run once more is kept, for the one that will.
        moved: free it only if the job has not begun to run since.
    """
    arguments: list[Argument] = [jid, int(may_run_again), moved]
    return int(redis.run(RELEASE, [lock_key(redis.keys, lock), index_key(redis.keys)], arguments))


def take_over(source: Redis, held: str, jid: str, destination: Redis, lock: str) -> bool:
    """Have a job that holds one lock hold another as well, for as long, perhaps on another server.

    False when it does not hold the first, or another job holds the second.
    """
    key = lock_key(source.keys, held)
    stored, left_ms = source.pipeline([("GET", key), ("PTTL", key)])
    if stored is None or not stored.startswith(f"{jid} ".encode()):
        return False
    keys = destination.keys
    return bool(destination.run(TAKE_OVER, [lock_key(keys, lock), index_key(keys)], [stored, max(1, int(left_ms))]))


def count(redis: Redis) -> int:
    """How many locks are held; some that ended in the last minutes may be among them."""
    return int(redis.call("SCARD", index_key(redis.keys)))


def pages(redis: Redis, size: int = PAGE) -> Iterator[list[Held]]:
    """Every lock that is held all the time, page by page in no order; some may come twice.

    Names of locks that have ended are taken out of the index on the way.
    """
    cursor = b"0"
    while True:
        cursor, names = redis.call("SSCAN", index_key(redis.keys), cursor, "COUNT", size)
        locks = [name.decode(errors="replace") for name in names]
        held = read(redis, locks)
        _forget(redis, [lock for lock, found in zip(locks, held, strict=True) if found is None])
        yield [found for found in held if found is not None]
        if cursor == b"0":
            return


def read(redis: Redis, locks: Sequence[str]) -> list[Held | None]:
    """The locks of these names; None for one that nobody holds."""
    commands: list[Command] = []
    for lock in locks:
        key = lock_key(redis.keys, lock)
        commands += (("GET", key), ("PTTL", key))
    replies = redis.pipeline(commands) if commands else []
    return [_held(*given) for given in zip(locks, replies[::2], replies[1::2], strict=True)]


def _forget(redis: Redis, locks: Sequence[str]) -> None:
    if locks:
        redis.run(FORGET, [index_key(redis.keys), *(lock_key(redis.keys, lock) for lock in locks)])


def _held(lock: str, stored: bytes | None, left_ms: Any) -> Held | None:
    match = None if stored is None else _TEXT.fullmatch(stored.decode(errors="replace"))
    if match is None:
        return None
    jid, taken, ran, duplicates, name = match.groups()
    moved_ms = max(int(taken), int(ran))
    return Held(lock, jid, name, int(taken), max(0, int(left_ms)), f"{taken} {ran}", moved_ms, duplicates == "again")
