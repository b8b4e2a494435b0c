"""How a run ended: one value, which is settled in one place."""

from __future__ import annotations

from dataclasses import dataclass

from offsider.core.errors import MalformedPayload


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
    """The job asked to run again later; not a failure."""

    delay_seconds: float
    name = "rescheduled"


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
class Malformed:
    """The bytes are no job; they go to the dead set as they are."""

    error: MalformedPayload
    name = "malformed"


Outcome = Succeeded | Failed | Rescheduled | Discarded | Skipped | Interrupted | Malformed
