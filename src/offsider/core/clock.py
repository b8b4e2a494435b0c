"""Clocks as an object, so that tests can replace them."""

from __future__ import annotations

import time

#: Start of the year 10,000 in epoch seconds. It and later times are refused: neither `datetime` nor Ruby has them.
END_OF_TIME = 253_402_300_800
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
