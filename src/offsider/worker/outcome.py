"""How a run ended: one value, which is settled in one place, and what is to be told of the run beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsider.core.errors import MalformedPayload

if TYPE_CHECKING:
    from offsider.wiring.context import JobContext


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The job is done."""

    name = "succeeded"


@dataclass(frozen=True, slots=True)
class Failed:
    """The job raised."""

    error: BaseException
    name = "failed"


@dataclass(frozen=True, slots=True)
class Rescheduled:
    """The job asked to run again later, and may say why; not a failure."""

    delay_seconds: float
    reason: str = ""
    name = "rescheduled"


@dataclass(frozen=True, slots=True)
class Parked:
    """The job cannot run in this worker, and has not begun; see `ability`.

    Attributes:
        payload: what is stored.
        delay_seconds: until it is tried again.
        reason: why it cannot run here.
        nobody: no live worker can run it, as far as is known.
        tries: how often in a row it was put off so, this time included.
    """

    payload: bytes
    delay_seconds: float
    reason: str
    nobody: bool
    tries: int = 1
    name = "parked"


@dataclass(frozen=True, slots=True)
class Deferred:
    """A switch has put the job off before it has begun; see `switchboard`."""

    delay_seconds: float
    reason: str
    name = "deferred"


@dataclass(frozen=True, slots=True)
class Dropped:
    """A switch has thrown the job out before it has begun: into the quarantine, unless it is not to be kept."""

    reason: str
    keep: bool
    name = "dropped"


@dataclass(frozen=True, slots=True)
class Discarded:
    """The job gave itself up: death handlers run, the dead set stays as it is."""

    error: BaseException
    name = "discarded"


@dataclass(frozen=True, slots=True)
class Skipped:
    """The job, or a middleware, found nothing to do."""

    reason: str
    name = "skipped"


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The worker stopped while the job ran; it will run again."""

    name = "interrupted"


@dataclass(frozen=True, slots=True)
class Moved:
    """A middleware has stored the job elsewhere, by a script of its own: there is nothing left to write."""

    place: str
    name = "moved"


@dataclass(frozen=True, slots=True)
class Malformed:
    """The bytes are no job; they go to the dead set as they are."""

    error: MalformedPayload
    name = "malformed"


#: There was no run: nothing of it is counted, and no try is used up.
NotBegun = Parked | Deferred | Dropped
#: What settlement writes.
Unwritten = Succeeded | Failed | Rescheduled | NotBegun | Discarded | Skipped | Interrupted | Malformed
Outcome = Unwritten | Moved


@dataclass(slots=True)
class Run:
    """What came of one run.

    Attributes:
        job: the job as middleware and the job itself saw it; None when the bytes were no job.
        outcome: how it ended.
        duration_seconds: wall time from decoding to the outcome.
        cpu_seconds: CPU time of the thread; None when it was not measured.
        kept_seconds: how long the job is stored from now on; None when it is gone.
    """

    job: JobContext | None
    outcome: Outcome
    duration_seconds: float
    cpu_seconds: float | None
    kept_seconds: float | None = None
