"""What the scheduler does in one round trip: move what it has prepared, and read what is due next.

1. Moves go first: the batch that was read the last time, prepared meanwhile.
2. Then one script takes or prolongs the lease under which one scheduler at a time moves, and reads a batch of every
   set. Whoever does not get the lease is told how long it lasts, and reads nothing.
3. At the end `hand_over` gives the lease back; those who watch ``offsider:schedule:free`` wake.

To lose the lease is harmless: it spares work, and the move itself decides who moves a job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from offsider.core.errors import OffsiderError, RedisRefused
from offsider.storage.failures import error_code
from offsider.storage.job_sets import Move, Moved, enqueue_call
from offsider.storage.keys import Keys
from offsider.storage.redis import Redis
from offsider.storage.scripts import Call, Command, Script

AGENDA = Script("agenda")
HAND_OVER = Script("hand_over")

Exchange: TypeAlias = Callable[[Sequence[Command]], list[Any]]
"""Runs commands in one round trip; an error reply is an element of the answer, as an error of our own."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Who may move jobs: one scheduler at a time, for ``life_ms`` from each look."""

    holder: str
    life_ms: int


@dataclass(frozen=True, slots=True)
class Due:
    """What is due now, and the seconds until the next job after these (None when there is none)."""

    members: list[bytes]
    next_in_seconds: float | None


@dataclass(frozen=True, slots=True)
class Agenda:
    """What there is to do.

    Attributes:
        held: the lease is ours.
        sets: what is due in each set, or the error that reading it gave; empty without the lease.
        free_in_seconds: when another's lease ends.
    """

    held: bool
    sets: Sequence[Due | RedisRefused]
    free_in_seconds: float = 0.0

    @property
    def is_due(self) -> bool:
        return any(isinstance(due, Due) and due.members for due in self.sets)


def turn(
    exchange: Exchange, keys: Keys, lease: Lease, batches: Sequence[tuple[str, Sequence[Move]]], limit: int
) -> tuple[list[list[Moved] | OffsiderError], Agenda]:
    """Move batches out of their sets, then look what is due in the retry set and the schedule.

    Args:
        exchange: of the connection to use.
        batches: pairs of a set and its moves, each of which has to be due still.
        limit: the most jobs to read of each set.

    Returns:
        How the moves of each batch went (or the error instead), and the agenda, whose sets are retry and schedule.

    Raises:
        RedisUnavailable, RedisRefused: it could not look.
    """
    look: Call = AGENDA, [keys.schedule_lease, keys.retry, keys.schedule], [lease.holder, lease.life_ms, limit]
    calls = [*(enqueue_call(keys, sorted_set, moves, only_due=True) for sorted_set, moves in batches), look]
    *moved, answer = _run(exchange, calls)
    if isinstance(answer, OffsiderError):
        raise answer
    return [_moved(reply) for reply in moved], _agenda(answer)


def hand_over(redis: Redis, holder: str) -> bool:
    """Give the lease back, if it is the holder's, and wake who waits for it."""
    keys = redis.keys
    return bool(redis.run(HAND_OVER, [keys.schedule_lease, keys.schedule_free], [holder]))


def _run(exchange: Exchange, calls: Sequence[Call]) -> list[Any]:
    replies = exchange([script.by_hash(keys, arguments) for script, keys, arguments in calls])
    unknown = {position for position, reply in enumerate(replies) if _is_unknown(reply)}
    if unknown:
        # The look as well, also when it was known: it has to come after the moves.
        again = sorted(unknown | {len(calls) - 1})
        texts = [calls[position][0].by_text(*calls[position][1:]) for position in again]
        for position, reply in zip(again, exchange(texts), strict=True):
            replies[position] = reply
    return replies


def _is_unknown(reply: Any) -> bool:
    return isinstance(reply, RedisRefused) and reply.code == "NOSCRIPT"


def _moved(reply: Any) -> list[Moved] | OffsiderError:
    return reply if isinstance(reply, OffsiderError) else [Moved(int(one)) for one in reply]


def _agenda(answer: list[Any]) -> Agenda:
    held, *rest = answer
    if held != b"1":
        return Agenda(held=False, sets=(), free_in_seconds=float(rest[0]))
    return Agenda(held=True, sets=[_due(reply) for reply in rest])


def _due(reply: Any) -> Due | RedisRefused:
    if isinstance(reply, Exception):
        return RedisRefused(f"a set of jobs cannot be read: {reply}", code=error_code(reply))  # type: ignore[arg-type]
    next_in, members = reply
    return Due(members, float(next_in) if next_in else None)
