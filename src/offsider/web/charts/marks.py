"""Deploy marks in a chart: a vertical line with a label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from markupsafe import Markup

from offsider.web.charts.axis import Columns
from offsider.web.charts.readable import moment
from offsider.web.charts.svg import element, percent

LONGEST_LABEL = 24
_LINES = 2  # labels of neighbors alternate between two lines


class Mark(TypedDict):
    """A deploy: its time (epoch seconds) and its label."""

    at: float
    label: str


def draw(marks: Sequence[Mark], columns: Columns, *, bottom: float) -> list[Markup]:
    """Draw the marks inside the time range of the chart."""
    drawn: list[Markup] = []
    for position, mark in enumerate(marks):
        share = columns.share(mark["at"])
        if share is not None:
            drawn.append(_mark(mark, share, 12.0 + 13 * (position % _LINES), bottom))
    return drawn


def _mark(mark: Mark, share: float, y: float, bottom: float) -> Markup:
    x = percent(share)
    line = element("line", {"x1": x, "x2": x, "y1": y - 8, "y2": bottom})
    # In the right half the label is left of its line, where there is space.
    right = share > 0.5
    place: dict[str, object] = {
        "x": x,
        "y": y,
        "dx": -4 if right else 4,
        "text-anchor": "end" if right else "start",
    }
    title = element("title", {}, f"{moment(mark['at'])} UTC: {mark['label']}")
    return element("g", {"class": "mark"}, title, line, element("text", place, _cut(mark["label"])))


def _cut(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"
