"""The schedule, the retry set and the dead set: jobs with a score, which is a time in epoch seconds.

Jobs leave a set by the script of `places`. The client that removes the member owns the job: an offsider or Ruby
process, or an operator on a web page.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from offsider.storage import clocks, hashes
from offsider.storage.redis import Redis
from offsider.storage.scripts import run_together
from offsider.storage.working import DeadSetLimits

#: A cursor of Redis: a number below 2**64.
_CURSOR = re.compile(r"[0-9]{1,19}")
_PAGE = 50


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
    score = repr(clocks.look(redis)[0] + delay_seconds)
    return run_together(redis, ("ZADD", sorted_set, "XX", "GT", "CH", score, member)) == [1]


def size(redis: Redis, sorted_set: str) -> int:
    return int(redis.call("ZCARD", sorted_set))


def page(
    redis: Redis, sorted_set: str, start: int, count: int, *, newest_first: bool = False
) -> list[tuple[bytes, float]]:
    """Return members with their scores, earliest or latest first; ``start`` counts from 0."""
    order = ("REV",) if newest_first else ()
    reply = redis.call("ZRANGE", sorted_set, start, start + count - 1, *order, "WITHSCORES")
    return hashes.scores(reply)


def each(redis: Redis, sorted_set: str) -> Iterator[tuple[bytes, float]]:
    """Iterate over members and scores, earliest first. Yielded members may have been removed.

    Yields each member once, even if others are removed during the iteration: the next page starts after the last
    member read, by score and then by bytes, as Redis sorts them.
    """
    last: tuple[float, bytes] = (-math.inf, b"")
    start, skip = b"-inf", 0
    while True:
        reply = redis.call("ZRANGE", sorted_set, start, "+inf", "BYSCORE", "LIMIT", skip, _PAGE, "WITHSCORES")
        page = [(score, member) for member, score in hashes.scores(reply)]
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


def scan_on(redis: Redis, sorted_set: str, text: str, cursor: str, count: int) -> tuple[str, list[tuple[bytes, float]]]:
    """Scan about ``count`` members for ``text``. Returns the next cursor, empty at the end, and the matches.

    A scan from the beginning (an empty or unknown cursor) to the end finds every member that is present throughout,
    some of them twice.
    """
    match = ("MATCH", f"*{literal(text)}*") if text else ()
    start = cursor if _CURSOR.fullmatch(cursor) else "0"
    position, reply = redis.call("ZSCAN", sorted_set, start, *match, "COUNT", count)
    return "" if position == b"0" else position.decode(), hashes.scores(reply)


def literal(text: str) -> str:
    """Escape ``text`` as a glob pattern that matches it literally."""
    return "".join("\\" + letter if letter in "*?[]\\^" else letter for letter in text)
