"""Times, durations and sizes as people read them, in the visitor's language."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime

from markupsafe import Markup, escape

from offsider.web.translation import Locale

#: Lists show so many letters of anything.
LINE_LETTERS = 100
#: More of one thing never goes into a page that lists many.
MOST_LETTERS = 2048
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_LAST_SECOND = 253402300799.0
#: What stands for no value.
NONE = "\N{EN DASH}"
#: From how many seconds on a unit is used, how long it is, and how it is written.
_SPANS = ((172800, 86400, "{count} d"), (7200, 3600, "{count} h"), (120, 60, "{count} min"), (0, 1, "{count} s"))


def is_finite(value: float) -> bool:
    """Whether it can be reckoned with: a whole number of 400 digits, which JSON may hold, is beyond every float."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def moment(locale: Locale, at: float | None) -> Markup:
    """How long ago, or in how long, as a ``<time>`` whose title is the exact time; a dash for none."""
    stamp = iso(at)
    if at is None or not stamp:
        return escape(NONE)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(stamp, exact(at), relative(locale, at))


def exact(at: float | None) -> str:
    """To the second, in UTC; empty for what is no time."""
    stamp = iso(at)
    return f"{stamp[:10]} {stamp[11:19]} UTC" if stamp else ""


def iso(at: float | None) -> str:
    """Epoch seconds as ISO 8601 in UTC; empty for what is no time."""
    if at is None or not is_finite(at) or not 0 < at <= _LAST_SECOND:
        return ""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def relative(locale: Locale, at: float, now: float | None = None) -> str:
    """``5 min ago`` or ``in 5 min``."""
    difference = at - (time.time() if now is None else now)
    seconds = abs(difference)
    if seconds < 1:
        return locale.translate("now")
    amount = span(locale, seconds)
    return locale.translate("in {time}" if difference > 0 else "{time} ago", time=amount)


def span(locale: Locale, seconds: float | None) -> str:
    """A duration in its largest unit: ``250 ms``, ``2.5 s``, ``12 s``, ``3 min``, ``2 h``, ``4 d``."""
    if seconds is None or not is_finite(seconds):
        return NONE
    seconds = max(0.0, seconds)
    if seconds < 1:
        milliseconds = seconds * 1000
        shown = locale.number(milliseconds, 1 if 0 < milliseconds < 10 else 0)
        return locale.translate("{count} ms", count=shown)
    if seconds < 10:
        return locale.translate("{count} s", count=locale.number(seconds, 1))
    length, text = next((length, text) for least, length, text in _SPANS if seconds >= least)
    return locale.translate(text, count=int(seconds // length))


def size(locale: Locale, count: float | None) -> str:
    """Bytes with a fitting unit."""
    if count is None or not is_finite(count):
        return NONE
    power = 0
    while abs(count) >= 1000 and power < len(_UNITS) - 1:
        count /= 1000
        power += 1
    return f"{locale.number(count, 1 if power and count < 100 else 0)} {_UNITS[power]}"


def cut(text: str, most: int = LINE_LETTERS) -> str:
    """The text, or its beginning with an ellipsis."""
    return text if len(text) <= most else f"{text[:most]}…"


def long_text(locale: Locale, text: str, most: int = LINE_LETTERS) -> Markup:
    """The text; of a long one the beginning, with the rest of what was sent to unfold."""
    if len(text) <= most:
        return escape(text)
    return Markup(
        '<details class="long"><summary>{}<span class="more">{}</span></summary><div>{}</div></details>'
    ).format(cut(text, most), locale.translate("Show all"), cut(text, MOST_LETTERS))
