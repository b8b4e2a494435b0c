"""The finished steps of a job, and the signals that it has got, in one hash: they live as long as the job.

Fields: ``step:<name>`` (`StoredStep` as JSON), ``signal:<name>`` (a value as JSON), ``until:<name>`` (end of the wait
for it, in epoch seconds) and ``waits`` (name of the signal that the job waits for, a line break, and the payload that
waits in the schedule).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from offsider.storage import hashes
from offsider.storage.effects import Effect
from offsider.storage.scripts import Argument, Script

if TYPE_CHECKING:
    from offsider.core.outcome import Destination, Outcome
    from offsider.storage.keys import Keys
    from offsider.storage.redis import Redis
    from offsider.storage.working import PrivateListEntry

STORE_STEP, KEEP_STEPS, SIGNAL = Script("store_step"), Script("keep_steps"), Script("signal")
_STEP = "step:"


class StoredStep(NamedTuple):
    """A finished step.

    Attributes:
        value: its result, as JSON.
        function: module and name of the function that ran.
        at: its end, in epoch seconds.
        seconds: its duration.
    """

    value: Any
    function: str
    at: float
    seconds: float


class SignalWait(NamedTuple):
    """A wait for a signal.

    Attributes:
        name: name of the signal.
        payload: the job in the schedule.
        until: end of the wait, in epoch seconds.
    """

    name: str
    payload: bytes
    until: float


@dataclass
class StepsSeen:
    """What is stored about the steps of a job.

    Attributes:
        steps: by name, in the order in which they were stored.
        signals: the values of its signals, by name.
        until: name of a signal -> end of the wait for it, in epoch seconds.
        waits_for: the signal that the job waits for; empty if it waits for none.
    """

    steps: dict[str, StoredStep] = field(default_factory=dict[str, StoredStep])
    signals: dict[str, Any] = field(default_factory=dict[str, Any])
    until: dict[str, float] = field(default_factory=dict[str, float])
    waits_for: str = ""


def read(redis: Redis, jid: str) -> StepsSeen:
    """Read the steps of a job. Fields of other programs are left out."""
    seen = StepsSeen()
    for name, stored in hashes.texts(redis.call("HGETALL", redis.keys.steps(jid))):
        kind, _, rest = name.partition(":")
        match kind:
            case "step":
                parts = hashes.json_value(stored)
                with suppress(TypeError, ValueError):  # written by another program
                    value, function, at, seconds = cast("list[Any]", parts)
                    seen.steps[rest] = StoredStep(value, str(function), *map(hashes.number_field, (at, seconds)))
            case "signal":
                seen.signals[rest] = hashes.json_value(stored)
            case "until":
                seen.until[rest] = hashes.number_field(stored)
            case "waits":
                seen.waits_for = stored.partition("\n")[0]
            case _:
                pass
    seen.steps = dict(sorted(seen.steps.items(), key=lambda item: item[1].at))
    return seen


def store(
    redis: Redis, jid: str, entry: PrivateListEntry | str, name: str, step: StoredStep, *, life_seconds: float
) -> bool:
    """Store a finished step of a running job; False if another process owns the job.

    Args:
        entry: the job in its private list; for a job that is in none, the identity of its process.
        life_seconds: how long to keep it.
    """
    keys = redis.keys
    identity = entry if isinstance(entry, str) else entry.owner.identity
    working = "" if isinstance(entry, str) else keys.working(identity, entry.owner.capsule, entry.queue)
    own = [keys.steps(jid), keys.fenced(identity), working or keys.steps(jid)]
    value = json.dumps(step, ensure_ascii=False, separators=(",", ":"))
    raw = b"" if isinstance(entry, str) else entry.raw
    return bool(redis.run(STORE_STEP, own, [raw, round(life_seconds), _STEP + name, value]))


def keeping(keys: Keys, jid: str, life_seconds: Callable[[], float], wait: Callable[[], SignalWait | None]) -> Effect:
    """Return the effect that keeps the steps of a job for its next run, and deletes them with the job.

    Args:
        life_seconds: returns how long they are kept.
        wait: returns what the job waits for.
    """

    def arguments(_: Outcome, goes: Destination) -> Sequence[Argument]:
        life, waits = 0 if goes == "gone" else round(life_seconds()), wait() or SignalWait("", b"", 0.0)
        return [life, waits.name, waits.payload, repr(waits.until)]

    return Effect(KEEP_STEPS, [keys.steps(jid), keys.schedule], arguments)


def signal(redis: Redis, jid: str, name: str, value: str, life_seconds: float) -> bool:
    """Keep a signal for a job, with a value as JSON; False if it has one of this name."""
    keys = redis.keys
    return bool(redis.run(SIGNAL, [keys.steps(jid), keys.schedule], [name, value, round(life_seconds)]))
