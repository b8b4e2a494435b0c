"""Pauses between the starts of a process that dies."""

from __future__ import annotations

import os
from dataclasses import dataclass

FIRST_SECONDS = 1.0
MAX_SECONDS = 30.0
# A process that ran at least this long was healthy: its next restart is immediate again.
HEALTHY_SECONDS = 60.0


@dataclass
class Backoff:
    """The back-off of one worker slot, or of the fork server."""

    _next_seconds: float = 0.0

    def pause_seconds(self, lived_seconds: float) -> float:
        """Return the pause before the next start, after a run of `lived_seconds`."""
        if lived_seconds >= HEALTHY_SECONDS:
            self._next_seconds = 0.0
        pause = self._next_seconds
        self._next_seconds = min(MAX_SECONDS, max(FIRST_SECONDS, 2 * pause))
        return pause


def described(status: int) -> str:
    """Describe a status of `os.waitpid` in words."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        import signal  # rarely needed

        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    return f"ended with code {code}"
