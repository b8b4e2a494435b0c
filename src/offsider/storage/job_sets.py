"""The schedule, the retry set and the dead set: jobs with a score, which is a time in epoch seconds.

A move out of a set is one script: it checks that the member is still there (and still due), writes the new payload,
and removes the member last. The client that removes the member owns the job: an offsider or Ruby process, or an
operator on a web page.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from offsider.storage.commands import run_together
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Argument, Call, RunsScripts, Script
from offsider.storage.working import DeadSetLimits

ENQUEUE = Script("enqueue")
KILL = Script("kill")
REMOVE = Script("remove")
RESCHEDULE = Script("reschedule")
DEFER = Script("defer")
DROP = Script("drop")

_PAGE = 50


class Move(NamedTuple):
    """A member of a set, with the payload to push and its queue."""

    member: bytes
    payload: bytes
    queue: str


class MoveResult(Enum):
    """The result of a move."""

    DONE = 1
    GONE = 0
    REFUSED = -1


def enqueue(redis: RunsScripts, sorted_set: str, moves: Sequence[Move], *, only_due: bool) -> list[MoveResult]:
    """Move jobs to their queues.

    Args:
        only_due: skip jobs that are not due, for example because their score was raised after they were read.
    """
    return [
        MoveResult(int(reply)) for reply in redis.run(*enqueue_call(redis.keys, sorted_set, moves, only_due=only_due))
    ]


def enqueue_call(keys: Keys, sorted_set: str, moves: Sequence[Move], *, only_due: bool) -> Call:
    """The script call of `enqueue`, for use in a pipeline."""
    arguments: list[Argument] = [int(only_due)]
    for move in moves:
        arguments += (move.member, move.payload, move.queue)
    return ENQUEUE, [sorted_set, keys.queues, *(keys.queue(move.queue) for move in moves)], arguments


def kill(
    redis: RunsScripts,
    sorted_set: str,
    members: Sequence[tuple[bytes, bytes]],
    limits: DeadSetLimits,
    *,
    only_due: bool = False,
) -> list[bool]:
    """Move members to the dead set, each with its new payload. False if it is missing, or has to be due and is not."""
    arguments: list[Argument] = [limits.timeout_seconds, limits.max_jobs, int(only_due)]
    for member in members:
        arguments += member
    return [bool(reply) for reply in redis.run(KILL, [sorted_set, redis.keys.dead], arguments)]


def bury(redis: Redis, payload: bytes, now: float, limits: DeadSetLimits) -> None:
    """Add a job that is stored nowhere else to the dead set."""
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
    """Add a job that is stored nowhere else, due at ``at``."""
    redis.call("ZADD", sorted_set, at, payload)


def defer(redis: Redis, sorted_set: str, member: bytes, delay_seconds: float) -> bool:
    """Delay a member, counted from now by the server's clock. Never makes it due earlier."""
    return bool(redis.run(DEFER, [sorted_set], [member, repr(delay_seconds)]))


def remove(redis: RunsScripts, sorted_set: str, members: Sequence[bytes]) -> list[bool]:
    """Delete members. False for a missing member."""
    return [bool(reply) for reply in redis.run(REMOVE, [sorted_set], members)]


def reschedule(redis: RunsScripts, sorted_set: str, member: bytes, at: float) -> bool:
    """Set the score of a member, in epoch seconds. False if it is missing."""
    return bool(redis.run(RESCHEDULE, [sorted_set], [member, repr(at)]))


def drop(redis: RunsScripts, sorted_set: str, member: bytes) -> bool:
    """Delete a member that is due. False if it is missing or not due."""
    return bool(redis.run(DROP, [sorted_set], [member]))


def size(redis: Redis, sorted_set: str) -> int:
    return int(redis.call("ZCARD", sorted_set))


def page(
    redis: Redis, sorted_set: str, start: int, count: int, *, newest_first: bool = False
) -> list[tuple[bytes, float]]:
    """Return members with their scores, earliest or latest first; ``start`` counts from 0."""
    order = ("REV",) if newest_first else ()
    reply = redis.call("ZRANGE", sorted_set, start, start + count - 1, *order, "WITHSCORES")
    return _pairs(reply)


def each(redis: Redis, sorted_set: str, since: float = -math.inf) -> Iterator[tuple[bytes, float]]:
    """Iterate over members and scores from ``since`` on, earliest first. Yielded members may have been removed.

    Yields each member once, even if others are removed during the iteration: the next page starts after the last
    member read, by score and then by bytes, as Redis sorts them.
    """
    last: tuple[float, bytes] = (-math.inf, b"")
    start, skip = repr(since).encode(), 0
    while True:
        reply = redis.call("ZRANGE", sorted_set, start, "+inf", "BYSCORE", "LIMIT", skip, _PAGE, "WITHSCORES")
        page = [(float(score), member) for member, score in zip(reply[::2], reply[1::2], strict=True)]
        if skip and (not page or page[0] > last):
            # Members of this score were removed, so the offset may skip others: read them all.
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
    """Return the members with exactly this score."""
    members: list[bytes] = redis.call("ZRANGE", sorted_set, score, score, "BYSCORE")
    return members


def clear(redis: Redis, sorted_set: str) -> int:
    """Delete a set; returns how many members it had."""
    members, _ = run_together(redis, ("ZCARD", sorted_set), ("UNLINK", sorted_set))
    return int(members)


def scan_on(redis: Redis, sorted_set: str, text: str, cursor: int, count: int) -> tuple[int, list[tuple[bytes, float]]]:
    """Scan about ``count`` members for ``text``. Returns the next cursor, 0 at the end, and the matches.

    A scan from cursor 0 to the end finds every member that is present throughout, some of them twice.
    """
    match = ("MATCH", f"*{literal(text)}*") if text else ()
    position, reply = redis.call("ZSCAN", sorted_set, cursor, *match, "COUNT", count)
    return int(position), _pairs(reply)


def literal(text: str) -> str:
    """Escape ``text`` as a glob pattern that matches it literally."""
    return "".join("\\" + letter if letter in "*?[]\\^" else letter for letter in text)


def _pairs(reply: Sequence[bytes]) -> list[tuple[bytes, float]]:
    return [(member, float(score)) for member, score in zip(reply[::2], reply[1::2], strict=True)]
