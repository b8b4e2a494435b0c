"""Format jobs, values and times for failure messages: short, on one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

LONGEST_VALUE = 100


def value(given: object) -> str:
    """Return the repr, shortened in the middle if it is long."""
    text = repr(given)
    if len(text) <= LONGEST_VALUE:
        return text
    half = LONGEST_VALUE // 2 - 2
    return f"{text[:half]}...{text[-half:]}"


def call(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Format as ``app.resize('a.png', width=200)``."""
    words = [value(each) for each in args] + [f"{key}={value(each)}" for key, each in kwargs.items()]
    return f"{name}({', '.join(words)})"


def delay(seconds: float) -> str:
    """Format as ``in 90 s``."""
    # Stamps are in milliseconds, so the third digit is noise.
    return f"in {round(seconds, 2):g} s" if abs(seconds) < 1e5 else f"in {round(seconds)} s"


def moment(epoch_seconds: float) -> str:
    """Format as ``at 2030-01-01 12:00:00 UTC``; as a number if `datetime` cannot represent it."""
    try:
        when = datetime.fromtimestamp(epoch_seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return f"at {epoch_seconds!r}"
    return f"at {when:%Y-%m-%d %H:%M:%S} UTC"
