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
class Stranded:
    """The job cannot run in this worker, and was not started; see `stranded`.

    Attributes:
        payload: the payload to store.
        delay_seconds: until the next attempt; 0: the job moves to the tail of its queue.
        reason: why it cannot run here.
        is_first: whether this is the first attempt to log.
        since: when the job was first stranded, in epoch seconds; None while another worker might run it.
    """

    payload: bytes
    delay_seconds: float
    reason: str
    is_first: bool
    since: float | None = None
    name = "stranded"


@dataclass(frozen=True, slots=True)
class Deferred:
    """A kill switch deferred the job before its start; see `switchboard`."""

    delay_seconds: float
    reason: str
    name = "deferred"


@dataclass(frozen=True, slots=True)
class Dropped:
    """A kill switch dropped the job before its start: into the quarantine, unless ``keep`` is off."""

    reason: str
    keep: bool
    name = "dropped"


@dataclass(frozen=True, slots=True)
class Expired:
    """The job expired before its start (``expires_in``); it is deleted."""

    name = "expired"


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
class Moved:
    """An admission check stored the job elsewhere with its own script; nothing is left to write."""

    place: str
    name = "moved"


@dataclass(frozen=True, slots=True)
class Malformed:
    """The payload is malformed; it moves to the dead set in a wrapper."""

    error: MalformedPayload
    name = "malformed"


@dataclass(frozen=True, slots=True)
class NotAlone:
    """The job must run alone, but other jobs run in this process; it moves to the tail of its queue."""

    name = "not alone"


#: Outcomes without a run: nothing is counted, and no retry is used up.
NotBegun = Stranded | Deferred | Dropped | Expired | Moved | NotAlone
Outcome = Succeeded | Failed | Rescheduled | NotBegun | Discarded | Skipped | Interrupted | Malformed

Destination: TypeAlias = Literal["gone", "queue", "retry", "schedule", "dead", "quarantine", "elsewhere"]
"""Where a job goes after its run: out of the server, back to its queue, into a sorted set, the dead set or the
quarantine, or where an admission has stored it."""
