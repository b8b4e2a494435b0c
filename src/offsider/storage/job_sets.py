"""The schedule, the retry set and the dead set: jobs with a score, which is a time in epoch seconds.

A move out of a set compares first: the member is still there (and still due), then the new payload is
written, then the member is removed. Whoever removes the member has won the job, be it a process of ours,
a Ruby one or a person at a web page.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from offsider.core.errors import OffsiderError, RedisRefused
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Call, Script
from offsider.storage.working import DeadSetLimits

ENQUEUE = Script("enqueue")
KILL = Script("kill")
DEFER = Script("defer")
DROP = Script("drop")
RESCHEDULE = Script("reschedule")
CLEAR_SET = Script("clear_set")

_PAGE = 50


@dataclass(frozen=True, slots=True)
class Move:
    """A member of a set, and what is pushed to which queue in its place."""

    member: bytes
    payload: bytes
    queue: str


class Moved(Enum):
    """How a move went."""

    DONE = 1
    GONE = 0
    REFUSED = -1


def enqueue(redis: Redis, sorted_set: str, moves: Sequence[Move], *, only_due: bool) -> list[Moved]:
    """Move jobs to their queues.

    Args:
        only_due: leave alone what was given a later score since it was read.
    """
    return [Moved(int(reply)) for reply in redis.run(*enqueue_call(redis.keys, sorted_set, moves, only_due=only_due))]


def enqueue_call(keys: Keys, sorted_set: str, moves: Sequence[Move], *, only_due: bool) -> Call:
    """The script of `enqueue`, for one among several commands."""
    arguments: list[Argument] = [int(only_due)]
    for move in moves:
        arguments += (move.member, move.payload, move.queue)
    return ENQUEUE, [sorted_set, keys.queues, *(keys.queue(move.queue) for move in moves)], arguments


def kill_many(redis: Redis, sorted_set: str, members: Sequence[bytes], limits: DeadSetLimits) -> list[bool]:
    """Move members to the dead set as they are, in one round trip. False for one that was gone."""
    keys = [sorted_set, redis.keys.dead]
    calls: list[list[Argument]] = [[member, limits.timeout_seconds, limits.max_jobs, 0] for member in members]
    replies = redis.pipeline([KILL.by_hash(keys, arguments) for arguments in calls], raise_errors=False)
    return [_killed(redis, keys, *pair) for pair in zip(calls, replies, strict=True)]


def _killed(redis: Redis, keys: Sequence[str], arguments: Sequence[Argument], reply: Any) -> bool:
    if isinstance(reply, RedisRefused) and reply.code == "NOSCRIPT":
        reply = redis.run(KILL, keys, arguments)
    if isinstance(reply, OffsiderError):
        raise reply
    return bool(reply)


def kill(redis: Redis, sorted_set: str, member: bytes, limits: DeadSetLimits, *, only_due: bool = False) -> bool:
    """Move a member to the dead set as it is. False when it was gone, or was to be due and is not."""
    arguments: list[Argument] = [member, limits.timeout_seconds, limits.max_jobs, int(only_due)]
    return bool(redis.run(KILL, [sorted_set, redis.keys.dead], arguments))


def bury(redis: Redis, payload: bytes, now: float, limits: DeadSetLimits) -> None:
    """Add a job that lies nowhere else to the dead set."""
    dead = redis.keys.dead
    redis.pipeline(
        [
            ("MULTI",),
            ("ZADD", dead, now, payload),
            ("ZREMRANGEBYSCORE", dead, "-inf", now - limits.timeout_seconds),
            ("ZREMRANGEBYRANK", dead, 0, -limits.max_jobs),
            ("EXEC",),
        ]
    )


def add(redis: Redis, sorted_set: str, payload: bytes, at: float) -> None:
    """Store a job that lies nowhere else, due at ``at``."""
    redis.call("ZADD", sorted_set, at, payload)


def defer(redis: Redis, sorted_set: str, member: bytes, delay_seconds: float) -> bool:
    """Make a member due later, counted from now by the server's clock; never earlier than it is."""
    return bool(redis.run(DEFER, [sorted_set], [member, repr(delay_seconds)]))


def remove(redis: Redis, sorted_set: str, member: bytes) -> bool:
    """Delete a member. False when it was gone."""
    return bool(redis.call("ZREM", sorted_set, member))


def remove_many(redis: Redis, sorted_set: str, members: Sequence[bytes]) -> list[bool]:
    """Delete members in one round trip. False for one that was gone."""
    return [bool(reply) for reply in redis.pipeline([("ZREM", sorted_set, member) for member in members])]


def reschedule(redis: Redis, sorted_set: str, member: bytes, at: float) -> bool:
    """Give a member another score, in epoch seconds. False when it was gone."""
    return bool(redis.run(RESCHEDULE, [sorted_set], [member, repr(at)]))


def take_first(redis: Redis, sorted_set: str) -> tuple[bytes, float] | None:
    """Take the earliest member out of Redis, for good."""
    reply = redis.call("ZPOPMIN", sorted_set)
    return (reply[0], float(reply[1])) if reply else None


def drop(redis: Redis, sorted_set: str, member: bytes) -> bool:
    """Delete a member that is due. False when it was gone, or was given a later score."""
    return bool(redis.run(DROP, [sorted_set], [member]))


def size(redis: Redis, sorted_set: str) -> int:
    return int(redis.call("ZCARD", sorted_set))


def page(
    redis: Redis, sorted_set: str, start: int, count: int, *, newest_first: bool = False
) -> list[tuple[bytes, float]]:
    """Members with their scores from the earliest on, or from the latest; ``start`` counts from 0."""
    order = ("REV",) if newest_first else ()
    reply = redis.call("ZRANGE", sorted_set, start, start + count - 1, *order, "WITHSCORES")
    return _pairs(reply)


def each(redis: Redis, sorted_set: str) -> Iterator[tuple[bytes, float]]:
    """Members with their scores, earliest first, read in pages; a member may be gone once it is seen.

    Each comes once, whatever is removed meanwhile: the next page begins behind the last member that was read,
    by score and then by bytes, which is Redis' own order.
    """
    last: tuple[float, bytes] = (-math.inf, b"")
    start, skip = b"-inf", 0
    while True:
        reply = redis.call("ZRANGE", sorted_set, start, "+inf", "BYSCORE", "LIMIT", skip, _PAGE, "WITHSCORES")
        page = [(float(score), member) for member, score in zip(reply[::2], reply[1::2], strict=True)]
        if skip and (not page or page[0] > last):
            # Members of this score were removed, so others may have slipped into what is skipped.
            skip = max(0, skip - _PAGE)
            continue
        yield from ((member, score) for score, member in page if (score, member) > last)
        if len(page) < _PAGE:
            return
        score = page[-1][0]
        same = sum(1 for entry in page if entry[0] == score)
        skip = same - 1 + (skip if same == len(page) and reply[-1] == start else 0)
        start = reply[-1]
        last = max(last, page[-1])


def with_score(redis: Redis, sorted_set: str, score: float) -> list[bytes]:
    """The members of one score."""
    members: list[bytes] = redis.call("ZRANGE", sorted_set, score, score, "BYSCORE")
    return members


def scan(redis: Redis, sorted_set: str, pattern: str, count: int = 100) -> Iterator[tuple[bytes, float]]:
    """Members that match a glob pattern, in no order; some may come twice, as ZSCAN does."""
    cursor = b"0"
    while True:
        cursor, reply = redis.call("ZSCAN", sorted_set, cursor, "MATCH", pattern, "COUNT", count)
        for member, score in zip(reply[::2], reply[1::2], strict=True):
            yield member, float(score)
        if cursor == b"0":
            return


def clear(redis: Redis, sorted_set: str) -> int:
    """Delete a whole set, and answer how many members it had."""
    return int(redis.run(CLEAR_SET, [sorted_set]))


def take_earliest(redis: Redis, sorted_set: str, count: int) -> list[bytes]:
    """Take the earliest members out of Redis, for good."""
    members: list[bytes] = redis.call("ZPOPMIN", sorted_set, count)[::2]
    return members


def scan_on(redis: Redis, sorted_set: str, text: str, cursor: int, count: int) -> tuple[int, list[tuple[bytes, float]]]:
    """Look at about so many members for those that hold a text, and answer where to go on, 0 at the end.

    Begun with 0 and gone on to the end, this finds every member that is there all the time, some of them twice.
    """
    match = ("MATCH", f"*{literal(text)}*") if text else ()
    position, reply = redis.call("ZSCAN", sorted_set, cursor, *match, "COUNT", count)
    return int(position), _pairs(reply)


def literal(text: str) -> str:
    """``text`` as a glob pattern that matches nothing else."""
    return "".join("\\" + letter if letter in "*?[]\\^" else letter for letter in text)


def _pairs(reply: Sequence[bytes]) -> list[tuple[bytes, float]]:
    return [(member, float(score)) for member, score in zip(reply[::2], reply[1::2], strict=True)]
