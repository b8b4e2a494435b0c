"""Converts the time of a push to epoch seconds: a delay, a datetime, or a number that can be either."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from offsider.core.clock import END_OF_TIME
from offsider.core.errors import InvalidOptions
from offsider.core.wording import shown

When = float | timedelta | datetime

# Sidekiq's rule: a smaller number is a delay in seconds, a larger one is a timestamp (from September 2001).
RELATIVE_BELOW = 1_000_000_000


def due_at(when: When, now_seconds: float) -> float | None:
    """Return the due time of a job in epoch seconds, or None if it is now or in the past.

    Args:
        when: seconds or a timedelta from now; an aware datetime; or epoch seconds (1e9 and up).
        now_seconds: the current time in epoch seconds.

    Raises:
        InvalidOptions: a naive datetime, a negative delay, NaN or infinity, a time after the year 9999, or another
            type.
    """
    at = _epoch_seconds(when, now_seconds)
    if at >= END_OF_TIME:
        hint = "; is it in milliseconds?" if isinstance(when, int | float) and at < END_OF_TIME * 1000 else ""
        raise InvalidOptions(f"a time must be before the year 10000, got {shown(when)}{hint}")
    return at if at > now_seconds else None


def _epoch_seconds(when: object, now_seconds: float) -> float:
    if isinstance(when, datetime):
        return _of_datetime(when)
    if isinstance(when, timedelta):
        return now_seconds + _of_delay(when.total_seconds(), when)
    if isinstance(when, int | float) and not isinstance(when, bool):
        return _of_number(when, now_seconds)
    raise InvalidOptions(expected_time(when))


def expected_time(given: object) -> str:
    """Return the error message for a value that is not a time."""
    return f"a time must be seconds, a timedelta or an aware datetime, got {given!r}"


def _of_datetime(when: datetime) -> float:
    if when.utcoffset() is None:
        raise InvalidOptions(
            f"{when!r} has no time zone, so its meaning depends on the machine; "
            "use datetime.now(UTC) or attach a tzinfo"
        )
    return when.timestamp()


def _of_number(when: float, now_seconds: float) -> float:
    if not -math.inf < when < math.inf:
        raise InvalidOptions(f"a time must be finite, got {when!r}")
    if when >= RELATIVE_BELOW:
        return when
    return now_seconds + _of_delay(when, when)


def _of_delay(seconds: float, given: object) -> float:
    if seconds < 0:
        raise InvalidOptions(f"a delay must not be negative, got {shown(given)}")
    return seconds
