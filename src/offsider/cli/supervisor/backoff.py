"""When to start a worker again that has ended: at once the first time, then after longer and longer pauses."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_SECONDS = 1.0
LONGEST_SECONDS = 30.0
# Whoever lived that long was well: its next start is a first one again.
WELL_SECONDS = 60.0


@dataclass
class Backoff:
    """The pauses of one place among the workers."""

    _next_seconds: float = 0.0

    def pause_seconds(self, lived_seconds: float) -> float:
        """How long to wait before the next start, after a life of so many seconds."""
        if lived_seconds >= WELL_SECONDS:
            self._next_seconds = 0.0
        pause = self._next_seconds
        self._next_seconds = min(LONGEST_SECONDS, max(FIRST_SECONDS, 2 * pause))
        return pause
