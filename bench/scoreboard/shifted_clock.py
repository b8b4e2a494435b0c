"""A wall clock that is wrong."""

from __future__ import annotations

from offsider.core.clock import Clock

VARIABLE = "SCOREBOARD_CLOCK_SECONDS"


class ShiftedClock(Clock):
    """Wrong by so many seconds; what measures durations stays right."""

    def __init__(self, offset_seconds: float) -> None:
        self._offset_seconds = offset_seconds

    def now(self) -> float:
        return super().now() + self._offset_seconds
