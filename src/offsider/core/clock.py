"""Clocks as an object, so that tests can replace them, and durations."""

from __future__ import annotations

import time
from datetime import timedelta

from offsider.core.wording import shown

#: Start of the year 10,000 in epoch seconds. It and later times are refused: neither `datetime` nor Ruby has them.
END_OF_TIME = 253_402_300_800
MAX_SECONDS = 1e9  # of a duration; a larger number is a timestamp given by mistake, which Sidekiq rejects too


def as_seconds(
    value: object,
    name: str,
    *,
    at_least: float | None = None,
    at_most: float = MAX_SECONDS,
    error: type[ValueError] = ValueError,
) -> float:
    """Return a duration, a number of seconds or a timedelta, in seconds.

    Args:
        value: the duration.
        name: the option or the argument that contains it, for the message.
        at_least: the minimum; None for any positive duration.
        at_most: the maximum.
        error: the exception to raise.

    Raises:
        ValueError: it is neither, or is out of bounds; its type is ``error``.
    """
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if (
        isinstance(number, int | float)
        and not isinstance(number, bool)
        and (number > 0 if at_least is None else number >= at_least)
        and number <= at_most
    ):
        return float(number)
    if at_least is None:
        expected = f"a positive number of seconds (up to {at_most:,.0f})"
    else:
        expected = f"a number of seconds from {at_least:g} to {at_most:,.0f},"
    raise error(f"{name} must be {expected} or a timedelta, got {shown(value)}")


class Clock:
    """The system's clocks. Subclass it to stop or move time in tests."""

    def now(self) -> float:
        """Seconds since the epoch, for payload fields. The server's clock decides which jobs are due."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds of a monotonic clock, for durations."""
        return time.monotonic()


SYSTEM_CLOCK = Clock()
