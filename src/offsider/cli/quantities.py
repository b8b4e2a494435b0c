"""Short formats of numbers, durations and sizes for the terminal."""

from __future__ import annotations

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def grouped(number: int) -> str:
    """Format as ``12,345``."""
    return f"{number:,}"


def duration(seconds: float) -> str:
    """Format as ``0.25 s``, ``42 s``, ``3 min 20 s``, ``5 h 10 min``, ``12 d 3 h``; never negative."""
    if seconds < 10:
        return f"{max(0.0, seconds):.2f} s"
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def ago(at: float | None, now: float) -> str:
    """Format as ``3 min 20 s ago``, ``in 5 h 10 min``; empty if the time is unknown."""
    if at is None:
        return ""
    seconds = int(abs(at - now))
    length = duration(seconds) if seconds >= 10 else f"{seconds} s"
    return f"in {length}" if at > now else f"{length} ago"


def megabytes(kilobytes: int) -> str:
    """Format as ``151 MB``; empty if unknown."""
    return f"{kilobytes // 1024} MB" if kilobytes else ""
