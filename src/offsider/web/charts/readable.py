"""Numbers, durations and times as the charts write them: short, and the same in every language."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def short(value: float) -> str:
    """At most three digits and a unit, for the axes: ``1.5k``."""
    for size, unit in _UNITS:
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def exact(value: float) -> str:
    """All that matters of a number, for tables and read-outs: ``12,345``, ``0.25``."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.2f}" if value >= 1 else f"{value:.3g}"


def duration(ms: float) -> str:
    """``335 ms``, ``1.7 s``: the bounds of the histogram as people say them."""
    return f"{ms:g} ms" if ms < 1000 else f"{ms / 1000:g} s"


def clock(at: float) -> str:
    """``14:05``, in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%H:%M}"


def moment(at: float) -> str:
    """``2026-11-21 14:05``, in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}"


def tick(at: float) -> str:
    """The time of day, or the date where a day begins; in UTC."""
    when = datetime.fromtimestamp(at, UTC)
    return f"{when:%m-%d}" if at % 86_400 == 0 else f"{when:%H:%M}"
