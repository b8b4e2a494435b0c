"""Clocks as an object, so that tests can replace them."""

from __future__ import annotations

import time

#: The last second of the year 9999, in epoch seconds. Later times are refused: neither `datetime` nor Ruby has them.
LATEST = 253_402_300_799
MAX_SECONDS = 1e9  # of a duration; a larger number is a timestamp given by mistake, which Sidekiq rejects too


class Clock:
    """The system's clocks. Subclass it to stop or move time in tests."""

    def now(self) -> float:
        """Seconds since the epoch, for payload fields. The server's clock decides which jobs are due."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds of a monotonic clock, for durations."""
        return time.monotonic()


SYSTEM_CLOCK = Clock()
