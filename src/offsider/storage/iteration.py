"""The state of an iteration between the runs of its job, in the form of Sidekiq's ``IterableJob``.

``it-<jid>`` has the fields ``ex`` (number of runs), ``c`` (cursor of the next element, as JSON), ``rt`` (run time in
seconds) and ``cancelled`` (epoch seconds). offsider adds ``end``: no element is left, but the job has not ended.
Source: ``lib/sidekiq/job/iterable.rb`` of Sidekiq 8.1.7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsider.core.errors import Fenced
from offsider.storage import clocks, hashes
from offsider.storage.effects import Effect
from offsider.storage.scripts import Argument, Script, run_together

if TYPE_CHECKING:
    from offsider.core.outcome import Destination, Outcome
    from offsider.storage.keys import Keys
    from offsider.storage.redis import Redis

KEEP_ITERATION = Script("keep_iteration")
KEEP_SECONDS = 30 * 24 * 60 * 60


@dataclass(frozen=True, slots=True)
class IterationState:
    """The state of an iteration.

    Attributes:
        executions: number of runs that iterated.
        cursor: cursor of the element that comes next, as JSON; empty before the first one.
        runtime_seconds: of all runs.
        is_cancelled: whether it was asked to end before its next element.
        has_ended: no element is left.
    """

    executions: int = 0
    cursor: str = ""
    runtime_seconds: float = 0.0
    is_cancelled: bool = False
    has_ended: bool = False

    @property
    def fields(self) -> list[Argument]:
        """Names and values of the stored fields. Sidekiq needs the first three."""
        found: list[Argument] = ["ex", self.executions, "c", self.cursor or "null", "rt", repr(self.runtime_seconds)]
        return [*found, "end", 1] if self.has_ended else found


def read(redis: Redis, jid: str) -> IterationState | None:
    """Return the state of an iteration; None if the job has none, or has ended."""
    fields = dict(hashes.texts(redis.call("HGETALL", redis.keys.iteration(jid))))
    if not fields:
        return None
    return IterationState(
        hashes.whole(fields.get("ex")) or 0,
        fields.get("c", "").removeprefix("null"),
        hashes.number_field(fields.get("rt")),
        "cancelled" in fields,
        "end" in fields,
    )


def cursors(redis: Redis, jids: Sequence[str]) -> list[str]:
    """Return the cursors of jobs as JSON; empty for a job that does not iterate."""
    replies = redis.pipeline([("HGET", redis.keys.iteration(jid), "c") for jid in jids], raise_errors=False)
    return [hashes.text(reply).removeprefix("null") if isinstance(reply, bytes) else "" for reply in replies]


def keep(redis: Redis, jid: str, identity: str, state: IterationState) -> bool:
    """Store a state; return whether the iteration was cancelled.

    Raises:
        Fenced: the process was declared dead, and nothing was stored.
    """
    keys = [redis.keys.iteration(jid), redis.keys.fenced(identity)]
    reply: int = redis.run(KEEP_ITERATION, keys, [KEEP_SECONDS, *state.fields])
    if reply < 0:
        raise Fenced(f"{identity} was declared dead")
    return bool(reply)


def keeping(
    keys: Keys, jid: str, identity: str, at_end: Callable[[], IterationState], life_seconds: Callable[[], float]
) -> Effect:
    """Return the effect that stores the state with the outcome of a run, and deletes it with a job that is gone.

    Args:
        at_end: returns the state.
        life_seconds: returns how long the job is stored; Sidekiq keeps the state for 30 days, so that is the least.
    """

    def arguments(_: Outcome, goes: Destination) -> Sequence[Argument]:
        return [0 if goes == "gone" else max(KEEP_SECONDS, round(life_seconds())), *at_end().fields]

    return Effect(KEEP_ITERATION, [keys.iteration(jid), keys.fenced(identity)], arguments)


def cancel(redis: Redis, jid: str) -> None:
    """Ask an iteration to end before its next element, as Sidekiq's ``cancel!``; Ruby and Python read it each 5 s."""
    key, (now, _) = redis.keys.iteration(jid), clocks.look(redis)
    run_together(redis, ("HSETNX", key, "cancelled", int(now)), ("EXPIRE", key, KEEP_SECONDS))
