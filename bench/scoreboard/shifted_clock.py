"""A wall clock that is wrong."""

from __future__ import annotations

from offsider.core.clock import Clock

VARIABLE = "SCOREBOARD_CLOCK_SECONDS"


class ShiftedClock(Clock):
    """A wall clock with a constant error in seconds; the monotonic clock is right."""

    def __init__(self, offset_seconds: float) -> None:
        self._offset_seconds = offset_seconds

    def now(self) -> float:
        return super().now() + self._offset_seconds
