"""Numbers, durations and times in charts: short, and the same in every language."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def short(value: float) -> str:
    """Return at most three digits and a suffix, for axes: ``1.5k``."""
    for size, unit in _UNITS:
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def exact(value: float) -> str:
    """Return a number for tables and tooltips: ``12,345``, ``0.25``."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.2f}" if value >= 1 else f"{value:.3g}"


def duration(ms: float) -> str:
    """Return a duration: ``335 ms``, ``1.7 s``."""
    return f"{ms:g} ms" if ms < 1000 else f"{ms / 1000:g} s"


def clock(at: float) -> str:
    """Return the time of day in UTC: ``14:05``."""
    return f"{datetime.fromtimestamp(at, UTC):%H:%M}"


def moment(at: float) -> str:
    """Return date and time in UTC: ``2026-11-21 14:05``."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}"


def tick(at: float) -> str:
    """Return the time of day in UTC, or the date at midnight."""
    when = datetime.fromtimestamp(at, UTC)
    return f"{when:%m-%d}" if at % 86_400 == 0 else f"{when:%H:%M}"
