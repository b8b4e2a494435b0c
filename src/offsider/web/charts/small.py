"""Small drawings in table cells: sparklines and shares."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from offsider.web.charts.axis import Heights
from offsider.web.charts.figure import color, element, exact, percent

_WIDTH, _HEIGHT = 120.0, 24.0
_BOTTOM = _HEIGHT - 1


def sparkline(values: Sequence[float], *, title: str, position: int = 0) -> Markup:
    """Draw values over time as small bars; screen readers get the title and the highest value.

    Args:
        values: oldest first.
        title: title for screen readers.
        position: position of the series, for the color.
    """
    highest = max(values, default=0.0)
    heights = Heights.over(highest, whole=False, top=1, bottom=_BOTTOM)
    label = element("title", {}, f"{title}: ≤ {exact(highest)}")
    base = element("line", {"class": "grid", "x1": 0, "x2": _WIDTH, "y1": _BOTTOM, "y2": _BOTTOM})
    # One path instead of an element per bar, because a page has many sparklines.
    step = _WIDTH / max(1, len(values))
    bars = "".join(_bar(at, step, heights.of(value)) for at, value in enumerate(values) if value > 0)
    path = element("path", {"class": "bars", "d": bars, "stroke-width": step * 0.8})
    size = {"class": f"sparkline {color(position)}", "width": _WIDTH, "height": _HEIGHT, "role": "img"}
    return element("svg", size | {"direction": "ltr"}, label, base, path)


def _bar(at: int, step: float, top: float) -> str:
    return f"M{(at + 0.5) * step:.1f},{_BOTTOM:g}V{min(top, _BOTTOM - 1):.1f}"


def share(part: float, whole: float) -> Markup:
    """Draw a share of a whole, without text: the number is next to it."""
    width = percent(min(max(part / whole, 0.0), 1.0)) if whole > 0 else "0%"
    bar = element("rect", {"class": "bar", "width": width, "height": 10, "rx": 2})
    return element("svg", {"class": "share series-1", "width": "100%", "height": 10, "aria-hidden": "true"}, bar)
