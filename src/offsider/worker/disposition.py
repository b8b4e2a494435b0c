"""Where a job goes after its run. `Settlement.decide` chooses one, and the fetcher writes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

if TYPE_CHECKING:
    from offsider.core.outcome import Destination
    from offsider.core.payload import JobPayload
    from offsider.storage.effects import Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class _Disposition:
    """Base of all dispositions.

    Attributes:
        effects: writes of extensions, executed by the same script.
    """

    effects: Sequence[Effect] = ()


@dataclass(frozen=True, slots=True)
class Done(_Disposition):
    """The job leaves the server.

    Attributes:
        died: payload for the death handlers, if the job was discarded or has no attempt left.
    """

    died: JobPayload | None = None
    goes: ClassVar[Destination] = "gone"


@dataclass(frozen=True, slots=True)
class RequeuedFirst(_Disposition):
    """The job returns to the head of its queue as ``payload``."""

    payload: bytes
    goes: ClassVar[Destination] = "queue"


@dataclass(frozen=True, slots=True)
class RequeuedLast(_Disposition):
    """The job returns to the tail of its queue, byte for byte."""

    goes: ClassVar[Destination] = "queue"


@dataclass(frozen=True, slots=True)
class Later(_Disposition):
    """The job waits in a sorted set as ``payload``."""

    where: Literal["retry", "schedule"]
    payload: bytes
    delay_seconds: float

    @property
    def goes(self) -> Destination:
        return self.where


@dataclass(frozen=True, slots=True)
class Dead(_Disposition):
    """The job enters the dead set as ``payload``.

    Attributes:
        died: payload for the death handlers; None for a malformed payload.
    """

    payload: bytes
    died: JobPayload | None = None
    goes: ClassVar[Destination] = "dead"


@dataclass(frozen=True, slots=True)
class Quarantined(_Disposition):
    """The job enters the quarantine."""

    reason: str
    goes: ClassVar[Destination] = "quarantine"


@dataclass(frozen=True, slots=True)
class Moved(_Disposition):
    """The job is stored elsewhere already, by an admission. Nothing but its effects is written."""

    goes: ClassVar[Destination] = "elsewhere"


@dataclass(frozen=True, slots=True)
class Lost(_Disposition):
    """The job was requeued or settled elsewhere: by another process, a stop, or its hard time limit.

    Nothing is written; the run is void.
    """


Disposition: TypeAlias = Done | RequeuedFirst | RequeuedLast | Later | Dead | Quarantined | Moved | Lost
