"""Drawings that stand in a line of a table: a course over time, and a share of a whole."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from offsider.web.charts.axis import Heights
from offsider.web.charts.figure import colour
from offsider.web.charts.readable import exact
from offsider.web.charts.svg import element, percent

_WIDTH, _HEIGHT = 120.0, 24.0
_BOTTOM = _HEIGHT - 1


def sparkline(values: Sequence[float], *, title: str, position: int = 0) -> Markup:
    """The course of some values as small bars; its name and its highest value are there to be heard.

    Args:
        values: the oldest first.
        title: names the course.
        position: of its series, for the colour.
    """
    highest = max(values, default=0.0)
    heights = Heights.over(highest, whole=False, top=1, bottom=_BOTTOM)
    said = element("title", {}, f"{title}: ≤ {exact(highest)}")
    base = element("line", {"class": "grid", "x1": 0, "x2": _WIDTH, "y1": _BOTTOM, "y2": _BOTTOM})
    # One path: a page has many of these, and an element for each bar would be most of it.
    step = _WIDTH / max(1, len(values))
    bars = "".join(_bar(at, step, heights.of(value)) for at, value in enumerate(values) if value > 0)
    path = element("path", {"class": "bars", "d": bars, "stroke-width": step * 0.8})
    size = {"class": f"sparkline {colour(position)}", "width": _WIDTH, "height": _HEIGHT, "role": "img"}
    return element("svg", size | {"direction": "ltr"}, said, base, path)


def _bar(at: int, step: float, top: float) -> str:
    return f"M{(at + 0.5) * step:.1f},{_BOTTOM:g}V{min(top, _BOTTOM - 1):.1f}"


def share(part: float, whole: float) -> Markup:
    """How much of a whole; drawn only, as the number stands beside it."""
    width = percent(min(max(part / whole, 0.0), 1.0)) if whole > 0 else "0%"
    bar = element("rect", {"class": "bar", "width": width, "height": 10, "rx": 2})
    return element("svg", {"class": "share series-1", "width": "100%", "height": 10, "aria-hidden": "true"}, bar)
