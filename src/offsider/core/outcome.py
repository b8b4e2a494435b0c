"""The outcome of a run, or the reason why it did not start. `settlement` turns it into a disposition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from offsider.core.errors import MalformedPayload, RescheduleCounter


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The job succeeded."""

    name = "succeeded"


@dataclass(frozen=True, slots=True)
class Failed:
    """The job raised."""

    error: BaseException
    name = "failed"


@dataclass(frozen=True, slots=True)
class Deadly(Failed):
    """The job ended several threads that ran it, the last one by this error.

    ``effects``: what extensions add to its removal (`storage.effects`).
    """

    effects: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class Rescheduled:
    """The job raised `Reschedule`; not a failure.

    ``counted``: whether it counts toward the limit of `Reschedule`, in the field ``counter`` of the payload.
    """

    delay_seconds: float
    reason: str = ""
    counted: bool = False
    counter: RescheduleCounter = "rescheduled_count"
    name = "rescheduled"


@dataclass(frozen=True, slots=True)
class Discarded:
    """The job raised `Discard`: death handlers run, and the job is deleted."""

    error: BaseException
    name = "discarded"


@dataclass(frozen=True, slots=True)
class Skipped:
    """The job or a middleware raised `Skip`."""

    reason: str
    name = "skipped"


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The worker stopped while the job ran; the job is requeued."""

    name = "interrupted"


@dataclass(frozen=True, slots=True)
class Malformed:
    """The payload is malformed; it moves to the dead set in a wrapper."""

    error: MalformedPayload
    name = "malformed"


Destination: TypeAlias = Literal["gone", "queue", "retry", "schedule", "dead", "quarantine", "elsewhere"]
"""Where a job goes after its run: out of the server, back to its queue, into a sorted set, the dead set or the
quarantine, or where an admission has stored it."""


@dataclass(frozen=True, slots=True)
class NotStarted:
    """The job did not start: nothing is counted, and no retry is used up.

    Attributes:
        place: where it goes; ``"queue"`` is the tail of its queue, ``"elsewhere"`` where an admission stored it with
            its own script.
        delay_seconds: with ``"schedule"``, the time until the next attempt.
        reason: for the log.
        name: in the log and in events.
        payload: with ``"schedule"``, the payload to store, if it differs from the job.
        is_logged: whether the log has a line about it.
    """

    place: Destination
    delay_seconds: float = 0.0
    reason: str = ""
    name: str = "not started"
    payload: bytes | None = None
    is_logged: bool = True


Outcome = Succeeded | Failed | Rescheduled | NotStarted | Discarded | Skipped | Interrupted | Malformed
