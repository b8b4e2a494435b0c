"""Formats shares, times and durations in findings."""

from __future__ import annotations

from datetime import UTC, datetime

from offsider.core.wording import counted


def percent(share: float) -> str:
    """Format a share: ``72 %``, ``0.4 %``, ``0 %``."""
    shown = share * 100
    return f"{shown:.1f} %" if 0 < shown < 1 else f"{shown:.0f} %"


def seconds_text(seconds: float) -> str:
    """Format a duration of a run: ``20 ms``, ``8.5 s``, ``335 s``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:g} s"


def clock_time(at: float) -> str:
    """Format a time of today."""
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S} UTC"


def span(seconds: float) -> str:
    """Format seconds in the largest unit."""
    for name, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            return counted(int(seconds // size), name)
    return counted(int(seconds), "second")
