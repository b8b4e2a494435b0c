"""Times, durations and long texts in the user's language."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from markupsafe import Markup, escape

from offsider.core.clock import END_OF_TIME
from offsider.screens.plain import LINE_LETTERS, MAX_LETTERS, cut, is_finite
from offsider.screens.translation import Language

#: Shown for a missing value.
NONE = "\N{EN DASH}"
#: Minimum of each unit in seconds, its length in seconds, and its message.
_SPANS = ((172800, 86400, "time.days"), (7200, 3600, "time.hours"), (120, 60, "time.minutes"), (0, 1, "time.seconds"))


def moment(locale: Language, at: float | None) -> Markup:
    """Return a relative time as ``<time>`` with the exact time as title; a dash for None."""
    stamp = iso(at)
    if at is None or not stamp:
        return escape(NONE)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(stamp, exact(at), relative(locale, at))


def exact(at: float | None) -> str:
    """Return a time in UTC, to the second; empty if invalid."""
    stamp = iso(at)
    return f"{stamp[:10]} {stamp[11:19]} UTC" if stamp else ""


def iso(at: float | None) -> str:
    """Return epoch seconds as ISO 8601 in UTC; empty if invalid."""
    if at is None or not is_finite(at) or not 0 < at < END_OF_TIME:
        return ""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def relative(locale: Language, at: float, now: float | None = None) -> str:
    """Return a relative time: ``5 min ago`` or ``in 5 min``."""
    difference = at - (time.time() if now is None else now)
    seconds = abs(difference)
    if seconds < 1:
        return locale.translate("time.now")
    amount = span(locale, seconds)
    return locale.translate("time.in" if difference > 0 else "time.ago", time=amount)


def span(locale: Language, seconds: float | None) -> str:
    """Return a duration in its largest unit: ``250 ms``, ``2.5 s``, ``12 s``, ``3 min``, ``2 h``, ``4 d``."""
    if seconds is None or not is_finite(seconds):
        return NONE
    seconds = max(0.0, seconds)
    if seconds < 1:
        milliseconds = seconds * 1000
        shown = locale.number(milliseconds, 1 if 0 < milliseconds < 10 else 0)
        return locale.translate("time.milliseconds", value=shown)
    if seconds < 10:
        return locale.translate("time.seconds", value=locale.number(seconds, 1))
    length, message = next((length, message) for least, length, message in _SPANS if seconds >= least)
    return locale.translate(message, value=int(seconds // length))


def long_text(locale: Language, text: str, most: int = LINE_LETTERS) -> Markup:
    """Return a text; a long one is cut and can be expanded."""
    if len(text) <= most:
        return escape(text)
    return Markup(
        '<details class="long"><summary>{}<span class="more">{}</span></summary><div tabindex="0">{}</div></details>'
    ).format(cut(text, most), locale.translate("common.show_all"), cut(text, MAX_LETTERS))
