"""The last failed attempts of a job."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.storage import attempts


@dataclass(frozen=True, slots=True)
class Attempt:
    """One failed run.

    Attributes:
        number: number of the attempt, from 1.
        at: time of the failure, in epoch seconds.
        host: process that ran it, as ``host:pid``.
        error_class, error_message: the error; a long message is truncated.
        duration_seconds: execution time.
    """

    number: int
    at: float
    host: str
    error_class: str
    error_message: str
    duration_seconds: float


class Attempts:
    """Reads failed attempts. The last ten are stored while the job is in the retry or dead set."""

    @classmethod
    def of(cls, jid: str, config: Config | Installation | None = None) -> list[Attempt]:
        """Return the failed attempts of a job, newest first."""
        here = Installation.of(config)
        read = (_attempt(raw) for raw in attempts.read(here.redis, jid))
        return [attempt for attempt in read if attempt is not None]


def _attempt(raw: bytes) -> Attempt | None:
    """Parse a stored attempt; None if it is malformed."""
    try:
        fields = cast("dict[str, Any]", json.loads(raw))
        return Attempt(
            int(fields["number"]),
            float(fields["at"]),
            str(fields["host"]),
            str(fields["error_class"]),
            str(fields["error_message"]),
            float(fields["duration"]),
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
