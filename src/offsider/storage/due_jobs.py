"""The round trips of a scheduler: moves prepared jobs, and reads the next due jobs.

1. The first commands move the batch that the last round trip read, and the scheduler has prepared since.
2. One script then reads a batch of each set.
3. While nothing is due, `has_earlier` asks whether a job has come before the first known one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from offsider.core.errors import OffsiderError, RedisRefused
from offsider.storage import clocks
from offsider.storage.places import QUEUES, Move, MoveResult, move_call
from offsider.storage.redis import Redis
from offsider.storage.redis_errors import error_code
from offsider.storage.scripts import Call, Command, Script

DUE_JOBS = Script("due_jobs")


class Due(NamedTuple):
    """The jobs of a set that are due, the score of the next one, and the seconds until then; infinite without one."""

    members: list[bytes]
    next_score: float = math.inf
    next_in_seconds: float = math.inf


def move_and_look(
    redis: Redis, batches: Sequence[tuple[str, Sequence[Move]]], limit: int
) -> tuple[list[list[MoveResult] | OffsiderError], list[Due | RedisRefused]]:
    """Move batches out of their sets, then read the due jobs of the retry set and the schedule.

    Args:
        batches: pairs of the name of a set and its moves. A job that is no longer due does not move.
        limit: maximum number of jobs to read per set.

    Returns:
        The results of each batch (or its error), and the due jobs of the retry set and of the schedule (or the error of
        reading it).

    Raises:
        RedisUnavailable, RedisRefused: the due jobs could not be read.
    """
    keys = redis.keys
    look: Call = DUE_JOBS, [keys.retry, keys.schedule], [limit]
    calls = [*(move_call(keys, place, moves, QUEUES, only_due=True) for place, moves in batches), look]
    *moved, answer = _run(redis, calls)
    if isinstance(answer, OffsiderError):
        raise answer
    now, *sets = answer
    return [_moved(reply) for reply in moved], [_due(reply, float(now)) for reply in sets]


def has_earlier(redis: Redis, known: Sequence[Due]) -> bool:
    """Whether the retry set or the schedule has a job before the next one that `move_and_look` has found.

    A set without jobs needs no command of its own: an idle worker asks each second.
    """
    keys = (redis.keys.retry, redis.keys.schedule)
    empty = [key for key, due in zip(keys, known, strict=True) if due.next_score == math.inf]
    commands: list[Command] = [("EXISTS", *empty)] if empty else []
    for key, due in zip(keys, known, strict=True):
        if key not in empty:
            commands.append(("ZCOUNT", key, "-inf", f"({due.next_score!r}"))
    # An error counts: the script reports it, and reads the other set.
    return any(redis.pipeline(commands, raise_errors=False))


def scheduler_lag_seconds(redis: Redis) -> dict[str, float]:
    """Return how long the longest overdue job of ``schedule`` and of ``retry`` has been due; 0 if none is due."""
    sets = {"schedule": redis.keys.schedule, "retry": redis.keys.retry}
    firsts = [("ZRANGE", key, 0, 0, "WITHSCORES") for key in sets.values()]
    time, *heads = redis.pipeline([("TIME",), *firsts])
    now = clocks.seconds_of(time)
    return {name: max(0.0, now - float(head[1])) if head else 0.0 for name, head in zip(sets, heads, strict=True)}


def _run(redis: Redis, calls: Sequence[Call]) -> list[Any]:
    hashes = [script.by_hash(keys, arguments) for script, keys, arguments in calls]
    replies = redis.pipeline(hashes, raise_errors=False)
    unknown = {position for position, reply in enumerate(replies) if _is_unknown(reply)}
    if unknown:
        # Repeat the read too, even if its script was known: it must run after the moves.
        again = sorted(unknown | {len(calls) - 1})
        texts = [calls[position][0].by_text(*calls[position][1:]) for position in again]
        for position, reply in zip(again, redis.pipeline(texts, raise_errors=False), strict=True):
            replies[position] = reply
    return replies


def _is_unknown(reply: Any) -> bool:
    return isinstance(reply, RedisRefused) and reply.code == "NOSCRIPT"


def _moved(reply: Any) -> list[MoveResult] | OffsiderError:
    return reply if isinstance(reply, OffsiderError) else [MoveResult(int(one)) for one in reply]


def _due(reply: Any, now: float) -> Due | RedisRefused:
    if isinstance(reply, Exception):
        return RedisRefused(f"cannot read the retry set or the schedule: {reply}", code=error_code(reply))  # type: ignore[arg-type]
    score, members = reply
    return Due(members, float(score), float(score) - now) if score else Due(members)
