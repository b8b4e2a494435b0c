"""The round trip of a scheduler: moves prepared jobs, and reads the next due jobs.

1. The first commands move the batch that the last round trip read, and the scheduler has prepared since.
2. One script then acquires or renews the lease, which limits the work to one scheduler at a time, and reads a batch of
   each set. Without the lease it reads nothing.
3. At the end, the holder releases the lease (`leases.release`).

Losing the lease is harmless: it only saves work, and each move checks that the job is still in its set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from offsider.core.errors import OffsiderError, RedisRefused
from offsider.storage.places import QUEUES, Move, MoveResult, move_call
from offsider.storage.redis import Redis
from offsider.storage.redis_errors import error_code
from offsider.storage.scripts import Argument, Call, Script

DUE_JOBS = Script("due_jobs")


class Lease(NamedTuple):
    """The right to move due jobs: one scheduler at a time, for ``life_ms`` after each round trip.

    Attributes:
        held: this scheduler had the lease at its last read.
    """

    holder: str
    life_ms: int
    held: bool = False


class Due(NamedTuple):
    """The jobs of a set that are due, and the seconds until the next one (None if there is none)."""

    members: list[bytes]
    next_in_seconds: float | None


class DueJobs(NamedTuple):
    """The reply of the script.

    Attributes:
        held: this scheduler has the lease.
        lease_ends_in_seconds: when the lease of another scheduler ends unless it is renewed.
        sets: due jobs of each set, or the error of reading it; empty without the lease.
    """

    held: bool
    lease_ends_in_seconds: float
    sets: Sequence[Due | RedisRefused]

    @property
    def is_due(self) -> bool:
        return any(isinstance(due, Due) and due.members for due in self.sets)


def move_and_look(
    redis: Redis, lease: Lease, batches: Sequence[tuple[str, Sequence[Move]]], limit: int
) -> tuple[list[list[MoveResult] | OffsiderError], DueJobs]:
    """Move batches out of their sets, then read the due jobs of the retry set and the schedule.

    Args:
        batches: pairs of the name of a set and its moves. A job that is no longer due does not move.
        limit: maximum number of jobs to read per set.

    Returns:
        The results of each batch (or its error), and the due jobs: ``sets`` are the retry set and the schedule.

    Raises:
        RedisUnavailable, RedisRefused: the due jobs could not be read.
    """
    keys = redis.keys
    arguments: list[Argument] = [lease.holder, lease.life_ms, limit, int(lease.held)]
    look: Call = DUE_JOBS, [keys.schedule_lease, keys.retry, keys.schedule], arguments
    calls = [*(move_call(keys, place, moves, QUEUES, only_due=True) for place, moves in batches), look]
    *moved, answer = _run(redis, calls)
    if isinstance(answer, OffsiderError):
        raise answer
    return [_moved(reply) for reply in moved], _due_jobs(answer)


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


def _due_jobs(answer: list[Any]) -> DueJobs:
    held, *rest = answer
    if held != b"1":
        return DueJobs(held=False, lease_ends_in_seconds=rest[0] / 1000, sets=())
    return DueJobs(held=True, lease_ends_in_seconds=0.0, sets=[_due(reply) for reply in rest])


def _due(reply: Any) -> Due | RedisRefused:
    if isinstance(reply, Exception):
        return RedisRefused(f"cannot read the retry set or the schedule: {reply}", code=error_code(reply))  # type: ignore[arg-type]
    next_in, members = reply
    return Due(members, float(next_in) if next_in else None)
