"""A stored job as people look at it, whoever wrote it."""

from __future__ import annotations

from typing import Any, cast

from offsider.core.backtrace import inflate
from offsider.core.errors import MalformedPayload
from offsider.core.payload import JobPayload, decode, read_stamp


class JobRecord:
    """One stored payload.

    Args:
        raw: its bytes; they may be no job at all.

    Attributes:
        raw: the same bytes.
        payload: what they say; None when they are no job.
    """

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.payload: JobPayload | None
        try:
            self.payload = decode(raw)
        except MalformedPayload:
            self.payload = None
        #: What is shown in place of bytes that are no job.
        self._known: JobPayload = self.payload or {"class": "", "args": []}

    @property
    def malformed(self) -> bool:
        """Whether the bytes are no job."""
        return self.payload is None

    @property
    def jid(self) -> str:
        """The job's id; empty when there is none."""
        return self._known.get("jid", "")

    @property
    def name(self) -> str:
        """The stored name of the job; empty when there is none."""
        return self._known["class"]

    @property
    def args(self) -> list[Any]:
        return self._known["args"]

    @property
    def queue(self) -> str:
        """The queue that the job belongs to; empty when it does not say."""
        return self._known.get("queue", "")

    @property
    def created_at(self) -> float | None:
        """Epoch seconds; None when unknown. The same for the other times."""
        return self._time("created_at")

    @property
    def enqueued_at(self) -> float | None:
        return self._time("enqueued_at")

    @property
    def failed_at(self) -> float | None:
        return self._time("failed_at")

    @property
    def retried_at(self) -> float | None:
        return self._time("retried_at")

    @property
    def error_backtrace(self) -> list[str]:
        """The lines of the backtrace, inflated; empty when none was stored, or nothing that can be read."""
        stored: object = self._known.get("error_backtrace")
        if isinstance(stored, list):  # Sidekiq before 5.2.6 did not compress
            return [str(line) for line in cast("list[object]", stored)]
        try:
            return inflate(stored) if isinstance(stored, str) else []
        except ValueError:
            return []

    def _time(self, key: str) -> float | None:
        return read_stamp(self._known.get(key))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name or self.raw[:40]!r} {self.jid}>"
