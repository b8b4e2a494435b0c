"""The outcome of a run, or the reason why it did not start. The settlement turns it into a disposition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from offsider.core.errors import MalformedPayload, RescheduleCounter

#: Where a job goes. ``gone`` is deletion, ``elsewhere`` is where an admission has moved it.
Destination: TypeAlias = Literal["gone", "queue", "retry", "schedule", "dead", "quarantine", "elsewhere"]


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The job returned."""

    name = "succeeded"


@dataclass(frozen=True, slots=True)
class Failed:
    """The job raised ``error``."""

    error: BaseException
    name = "failed"


@dataclass(frozen=True, slots=True)
class Deadly(Failed):
    """The job has ended several worker threads, the last one with ``error``.

    Attributes:
        effects: scripts of extensions (`storage.effects`) that run when the job is removed.
    """

    effects: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class Rescheduled:
    """The job raised `Reschedule`, which is no failure.

    Attributes:
        delay_seconds: time until the next run.
        reason: for the log.
        counted: whether the run counts toward the limit of `Reschedule`.
        counter: the payload field with the number of counted runs.
    """

    delay_seconds: float
    reason: str = ""
    counted: bool = False
    counter: RescheduleCounter = "rescheduled_count"
    name = "rescheduled"


@dataclass(frozen=True, slots=True)
class Discarded:
    """The job raised `Discard` or was cancelled: it is deleted, and death handlers run."""

    error: BaseException
    name = "discarded"


@dataclass(frozen=True, slots=True)
class Skipped:
    """The job or a middleware raised `Skip`: the job is deleted as if it had succeeded."""

    reason: str
    name = "skipped"


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The run stopped before the job ended: the job is requeued.

    Attributes:
        has_started: False for an ``async def`` job that was waiting for others to end.
        continues: the next run continues where this one stopped, so the interruption is not counted.
    """

    has_started: bool = True
    continues: bool = False
    name = "interrupted"


@dataclass(frozen=True, slots=True)
class Malformed:
    """The payload cannot be decoded: a wrapper of it moves to the dead set."""

    error: MalformedPayload
    name = "malformed"


@dataclass(frozen=True, slots=True)
class NotStarted:
    """The job did not start: the run is not counted and uses up no retry.

    Attributes:
        place: where the job goes; ``"queue"`` is the tail of its queue.
        delay_seconds: with ``"schedule"``, time until the next attempt.
        reason: for the log.
        name: for the log and for events.
        payload: with ``"schedule"``, the payload to store instead of the claimed one.
        is_logged: whether to log a line.
    """

    place: Literal["gone", "queue", "schedule", "quarantine", "elsewhere"]
    delay_seconds: float = 0.0
    reason: str = ""
    name: str = "not started"
    payload: bytes | None = None
    is_logged: bool = True


Outcome = Succeeded | Failed | Rescheduled | NotStarted | Discarded | Skipped | Interrupted | Malformed
