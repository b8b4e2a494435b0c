"""The round trip of a scheduler: moves prepared jobs, and reads the next due jobs.

1. The first commands move the batch that the last round trip read, and the scheduler has prepared since.
2. One script then acquires or renews the lease, which limits the work to one scheduler at a time, and reads a batch of
   each set. Without the lease it reads nothing.
3. While no set changes, `renewal` renews the lease; other schedulers wait for `lease_ends_in` seconds.
4. At the end, `release_lease` releases the lease; schedulers that watch ``offsider:schedule:free`` wake.

Losing the lease is harmless: it only saves work, and each move checks that the job is still in its set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from offsider.core.errors import OffsiderError, RedisRefused
from offsider.storage.job_sets import Move, MoveResult, enqueue_call
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.redis_errors import error_code
from offsider.storage.scripts import Call, Command, Script

DUE_JOBS = Script("due_jobs")
RELEASE_LEASE = Script("release_lease")

SendCommands: TypeAlias = Callable[[Sequence[Command]], list[Any]]
"""Runs commands in one round trip; error replies are returned in the list, as offsider errors."""


class Lease(NamedTuple):
    """The right to move due jobs: one scheduler at a time, for ``life_ms`` after each round trip."""

    holder: str
    life_ms: int


class Due(NamedTuple):
    """The jobs of a set that are due, and the seconds until the next one (None if there is none)."""

    members: list[bytes]
    next_in_seconds: float | None


class DueJobs(NamedTuple):
    """The reply of the script.

    Attributes:
        held: this scheduler has the lease.
        sets: due jobs of each set, or the error of reading it; empty without the lease.
    """

    held: bool
    sets: Sequence[Due | RedisRefused]

    @property
    def is_due(self) -> bool:
        return any(isinstance(due, Due) and due.members for due in self.sets)


def move_and_look(
    send: SendCommands, keys: Keys, lease: Lease, batches: Sequence[tuple[str, Sequence[Move]]], limit: int
) -> tuple[list[list[MoveResult] | OffsiderError], DueJobs]:
    """Move batches out of their sets, then read the due jobs of the retry set and the schedule.

    Args:
        send: sends commands on the connection to use.
        batches: pairs of a set and its moves. A job that is no longer due does not move.
        limit: maximum number of jobs to read per set.

    Returns:
        The results of each batch (or its error), and the due jobs: ``sets`` are the retry set and the schedule.

    Raises:
        RedisUnavailable, RedisRefused: the due jobs could not be read.
    """
    look: Call = DUE_JOBS, [keys.schedule_lease, keys.retry, keys.schedule], [lease.holder, lease.life_ms, limit]
    calls = [*(enqueue_call(keys, sorted_set, moves, only_due=True) for sorted_set, moves in batches), look]
    *moved, answer = _run(send, calls)
    if isinstance(answer, OffsiderError):
        raise answer
    return [_moved(reply) for reply in moved], _due_jobs(answer)


def renewal(keys: Keys, lease: Lease) -> Command:
    """Return the command with which the holder renews the lease; its reply is 0 if the lease has ended."""
    return ("PEXPIRE", keys.schedule_lease, lease.life_ms)


def lease_ends_in(redis: Redis) -> float:
    """Return the seconds until the lease of another scheduler ends unless it is renewed; 0 if nobody has it."""
    left_ms: int = redis.call("PTTL", redis.keys.schedule_lease)
    if left_ms == -1:  # written by another program: it would never end
        redis.call("DEL", redis.keys.schedule_lease)
    return max(0, left_ms) / 1000


def release_lease(redis: Redis, holder: str) -> bool:
    """Release the lease, if the holder has it, and wake waiting schedulers."""
    keys = redis.keys
    return bool(redis.run(RELEASE_LEASE, [keys.schedule_lease, keys.schedule_free], [holder]))


def _run(send: SendCommands, calls: Sequence[Call]) -> list[Any]:
    replies = send([script.by_hash(keys, arguments) for script, keys, arguments in calls])
    unknown = {position for position, reply in enumerate(replies) if _is_unknown(reply)}
    if unknown:
        # Repeat the read too, even if its script was known: it must run after the moves.
        again = sorted(unknown | {len(calls) - 1})
        texts = [calls[position][0].by_text(*calls[position][1:]) for position in again]
        for position, reply in zip(again, send(texts), strict=True):
            replies[position] = reply
    return replies


def _is_unknown(reply: Any) -> bool:
    return isinstance(reply, RedisRefused) and reply.code == "NOSCRIPT"


def _moved(reply: Any) -> list[MoveResult] | OffsiderError:
    return reply if isinstance(reply, OffsiderError) else [MoveResult(int(one)) for one in reply]


def _due_jobs(answer: list[Any]) -> DueJobs:
    held, *rest = answer
    if held != b"1":
        return DueJobs(held=False, sets=())
    return DueJobs(held=True, sets=[_due(reply) for reply in rest])


def _due(reply: Any) -> Due | RedisRefused:
    if isinstance(reply, Exception):
        return RedisRefused(f"cannot read the retry set or the schedule: {reply}", code=error_code(reply))  # type: ignore[arg-type]
    next_in, members = reply
    return Due(members, float(next_in) if next_in else None)
