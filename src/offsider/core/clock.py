"""Time as an object, so that tests can bring their own."""

from __future__ import annotations

import time


class Clock:
    """The system's clocks. Subclass it to stop or move time in tests."""

    def now(self) -> float:
        """Seconds since the epoch. Fills payload fields; what is due is decided by the server's time."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back, for measuring durations."""
        return time.monotonic()


SYSTEM_CLOCK = Clock()
