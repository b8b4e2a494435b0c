"""Clocks as an object, so that tests can replace them."""

from __future__ import annotations

import time


class Clock:
    """The system's clocks. Subclass it to stop or move time in tests."""

    def now(self) -> float:
        """Seconds since the epoch, for payload fields. The server's clock decides which jobs are due."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds of a monotonic clock, for durations."""
        return time.monotonic()


SYSTEM_CLOCK = Clock()
