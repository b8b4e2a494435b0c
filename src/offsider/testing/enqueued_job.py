"""A job in fake mode, and the ways to refer to a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from offsider.client.prepared import Prepared
from offsider.core.compression import decode_plain
from offsider.core.payload import JobPayload, read_stamp
from offsider.jobs.base import Job
from offsider.jobs.call import Call
from offsider.jobs.declared import Declared
from offsider.jobs.enqueuer import Enqueuer
from offsider.testing import wording

AnyJob: TypeAlias = Enqueuer[..., Any] | type[Job] | str
"""A job function, a job class, either with ``.using(...)``, or the stored name of a job that is declared elsewhere."""


@dataclass(frozen=True, repr=False)
class EnqueuedJob:
    """A pushed job.

    Attributes:
        payload: the payload as a worker would decode it from JSON.
        queue: the queue to which it would have been pushed.
        at: epoch seconds at which it is due; None for at once.
        raw: the bytes that Redis would have stored.
    """

    payload: JobPayload
    queue: str
    at: float | None
    raw: bytes

    @classmethod
    def of(cls, prepared: Prepared) -> EnqueuedJob:
        return cls(decode_plain(prepared.raw), prepared.queue, prepared.at, prepared.raw)

    @property
    def name(self) -> str:
        """The stored name."""
        return self.payload["class"]

    @property
    def jid(self) -> str:
        return self.payload.get("jid", "")

    @property
    def args(self) -> list[Any]:
        return self.payload["args"]

    @property
    def kwargs(self) -> Mapping[str, Any]:
        """Keyword-only arguments; all others are in `args`."""
        return self.payload.get("kwargs") or {}

    @property
    def tags(self) -> Sequence[str]:
        return self.payload.get("tags") or ()

    @property
    def delay_seconds(self) -> float:
        """Seconds from the push until it is due; 0 for at once."""
        if self.at is None:
            return 0.0
        created_at = read_stamp(self.payload.get("created_at"))
        return self.at - (self.at if created_at is None else created_at)

    def is_due(self, now_seconds: float) -> bool:
        return self.at is None or self.at <= now_seconds

    def prepared(self) -> Prepared:
        """The push again, to run it."""
        return Prepared(self.payload, self.raw, self.queue, self.at)

    def __str__(self) -> str:
        text = f"{wording.call(self.name, self.args, self.kwargs)} in queue {self.queue}"
        if self.at is None:
            return text
        return f"{text}, due {wording.moment(self.at)} ({wording.delay(self.delay_seconds)})"

    def __repr__(self) -> str:
        return f"<{self}>"


def declared_behind(job: AnyJob | Call[..., Any]) -> Declared | None:
    """Return the declaration of a job that is declared in Python; None for a name.

    Raises:
        TypeError: the value is not a job.
    """
    if isinstance(job, str):
        return None
    declared = getattr(job, "declared", None)
    if not isinstance(declared, Declared):
        raise TypeError(f"expected a job function, a job class or the name of a job, got {job!r}")
    return declared


def name_of(job: AnyJob | Call[..., Any]) -> str:
    """Return the stored name. Raises TypeError as `declared_behind`."""
    if isinstance(job, str):
        return job
    declared = declared_behind(job)
    assert declared is not None  # noqa: S101  # only a name has none
    return declared.name
