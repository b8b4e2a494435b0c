"""Back-off for restarts of workers: the first restart is immediate, the pauses before later ones double."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_SECONDS = 1.0
LONGEST_SECONDS = 30.0
# A worker that ran at least this long was healthy: its next restart is immediate again.
HEALTHY_SECONDS = 60.0


@dataclass
class Backoff:
    """The back-off of one worker slot."""

    _next_seconds: float = 0.0

    def pause_seconds(self, lived_seconds: float) -> float:
        """Return the pause before the next start, after a run of `lived_seconds`."""
        if lived_seconds >= HEALTHY_SECONDS:
            self._next_seconds = 0.0
        pause = self._next_seconds
        self._next_seconds = min(LONGEST_SECONDS, max(FIRST_SECONDS, 2 * pause))
        return pause
