"""Ranges of times in filters: ``10m``, ``03:39..03:49``, ``2026-11-28T03:39..``, ``1h..10m``."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

from offsider.core.clock import END_OF_TIME
from offsider.inspector.job_filter import TimeRange
from offsider.screens.errors import BadRequest

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_AGE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhd])", re.ASCII)
_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?", re.ASCII)
_EPOCH = re.compile(r"[0-9]{9,12}(\.[0-9]{1,9})?", re.ASCII)
_DAY_SECONDS = 86_400
_DATE_LETTERS, _MINUTE_LETTERS = len("2026-11-28"), len("2026-11-28T03:39")


def parse(name: str, text: str, now: float, *, ahead: bool = False) -> TimeRange | None:
    """Return the range that a user wrote; None for an empty text. Times are in UTC.

    Args:
        name: name of the field.
        text: two ends with ``..`` between, one of which may be missing, or one time. An end is a duration, a time of
            day, a date, a date with a time, or epoch seconds. A duration alone is the time until now.
        now: epoch seconds.
        ahead: durations are after ``now``, not before.

    Raises:
        BadRequest: the text is none of these.
    """
    first, dots, last = (part.strip() for part in text.partition(".."))
    if not text:
        return None
    try:
        if dots:
            since = _end(first, now, ahead=ahead)[0] if first else 0.0
            until = _end(last, now, ahead=ahead)[0] if last else math.inf
        else:
            since, length = _end(first, now, ahead=ahead)
            until = since + length
            if not length:
                since, until = (0.0, since) if ahead else (since, math.inf)
    except ValueError as error:
        raise BadRequest(
            f"{name}: {text!r} is not a time or a range: write 10m, 03:39..03:49, 2026-11-28T03:39.. or ..2h"
        ) from error
    if since >= until:
        raise BadRequest(f"{name}: the range {text!r} ends before it starts")
    return since, until


def moment(text: str, now: float) -> float | None:
    """Return one time that a user wrote, as an end of `parse`; None for an empty text. Raises BadRequest."""
    try:
        return _end(text, now, ahead=False)[0] if text else None
    except ValueError as error:
        raise BadRequest(
            f"{text[:50]!r} is not a time: expected an age such as 30m, 2h or 1d, or a time in UTC such as "
            "2026-11-28T03:47"
        ) from error


def written(times: TimeRange) -> str:
    """Return a range with absolute times, which `parse` reads."""
    return "..".join(
        "" if end in (0.0, math.inf) else datetime.fromtimestamp(end, UTC).isoformat(timespec="milliseconds")[:-6]
        for end in times
    )


def _end(text: str, now: float, *, ahead: bool) -> tuple[float, float]:
    """Return a time, and the length of the minute or day that it names; 0 for a moment. Raises ValueError."""
    age = _AGE.fullmatch(text)
    if age is not None:
        seconds = float(age[1]) * _UNITS[age[2]]
        return (now + seconds if ahead else max(0.0, now - seconds)), 0
    if _EPOCH.fullmatch(text):
        return float(text), 0
    if _CLOCK.fullmatch(text):
        today = datetime.fromtimestamp(now, UTC)
        at = datetime.combine(today.date(), datetime.strptime(text[:5].rjust(5, "0"), "%H:%M").time(), UTC)  # noqa: DTZ007
        if text.count(":") > 1:
            at += timedelta(seconds=int(text[-2:]))
        if at > today and not ahead:
            at -= timedelta(days=1)
        return at.timestamp(), 0 if text.count(":") > 1 else 60
    at = datetime.fromisoformat(text)
    seconds = max(0.0, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())
    if seconds >= END_OF_TIME:
        raise ValueError(text)
    return seconds, {_DATE_LETTERS: _DAY_SECONDS, _MINUTE_LETTERS: 60}.get(len(text), 0)
