"""The last failed attempts of a job."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

from offsider.storage import attempts
from offsider.wiring.config import Config
from offsider.wiring.default import default_config


@dataclass(frozen=True, slots=True)
class Attempt:
    """One failed run.

    Attributes:
        number: 1 for the first run of the job.
        at: when it failed, in epoch seconds.
        host: where it ran, as ``host:pid``.
        error_class, error_message: what was raised; a long message is cut.
        duration_seconds: how long it ran.
    """

    number: int
    at: float
    host: str
    error_class: str
    error_message: str
    duration_seconds: float


class Attempts:
    """Reads them. The last ten are kept, for as long as the job is in the retry or dead set."""

    @classmethod
    def of(cls, jid: str, config: Config | None = None) -> list[Attempt]:
        """The attempts of a job, newest first."""
        config = config if config is not None else default_config()
        read = (_attempt(raw) for raw in attempts.read(config.shared_redis(), jid))
        return [attempt for attempt in read if attempt is not None]


def _attempt(raw: bytes) -> Attempt | None:
    """What is stored; None when somebody else wrote there."""
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
