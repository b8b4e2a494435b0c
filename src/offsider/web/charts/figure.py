"""The parts of every chart: elements, title, grid, legend, deploy marks, readable values, and the numbers as a table.

A drawing is as wide as the page allows, and its text keeps its size: horizontal positions are percentages, heights are
pixels. Only lines need a nested drawing, which is stretched. Values are short, and the same in every language.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypedDict

from markupsafe import Markup, escape

from offsider.web.charts.axis import Columns, Heights

Translate = Callable[[str], str]
"""Translates a message to the language of the page."""

HEIGHT = 240.0
TOP = 34.0  # room for the labels of deploy marks
BOTTOM = 216.0  # room for the times below
_EDGE = 0.04  # a label closer to an edge would leave the drawing
_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
#: Characters of the label of a deploy mark.
LONGEST_LABEL = 24
_LINES = 2  # labels of neighbors alternate between two lines


def figure(
    *,
    title: str,
    summary: str,
    drawing: Iterable[str],
    legend: str,
    table: str,
    height: float = HEIGHT,
    caption: str = "",
) -> Markup:
    """Build a chart with its parts. Screen readers get title, summary and table.

    Args:
        title: title of the drawing.
        summary: the content in one sentence.
        drawing: elements of the drawing.
        legend, table: results of `legend` and `numbers`.
        height: height of the drawing, in pixels.
        caption: text above the drawing, hidden from screen readers, which get the title.
    """
    # Text anchors depend on the direction, and in every chart time runs from left to right.
    attributes = {"class": "plot", "width": "100%", "height": height, "role": "img", "direction": "ltr"}
    svg = element("svg", attributes, element("title", {}, title), element("desc", {}, summary), *drawing)
    above = element("p", {"class": "caption", "aria-hidden": "true"}, caption) if caption else ""
    return element("figure", {"class": "chart"}, above, svg, legend, table)


def legend(names: Sequence[str]) -> Markup:
    """Build the legend of the colors; empty for a single series."""
    if len(names) < 2:
        return Markup()
    entries = [element("li", {}, swatch(at), name) for at, name in enumerate(names)]
    return element("ul", {"class": "legend"}, *entries)


def swatch(position: int | None) -> Markup:
    """Build the color sample of a series; an empty box for a series that is not drawn."""
    attributes = {
        "class": "swatch" if position is None else f"swatch {color(position)}",
        "width": 14,
        "height": 14,
        "aria-hidden": "true",
    }
    return element("svg", attributes, element("rect", {"width": 14, "height": 14, "rx": 3}))


def color(position: int) -> str:
    """Return the style sheet class of a series' color."""
    return f"series-{position % 8 + 1}"


def numbers(t: Translate, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """Build the table of the numbers, closed by default."""
    heads = [element("th", {"scope": "col"}, each) for each in head]
    lines = [
        element("tr", {}, element("th", {"scope": "row"}, row[0]), *(element("td", {}, each) for each in row[1:]))
        for row in rows
    ]
    table = element("table", {}, element("thead", {}, element("tr", {}, *heads)), element("tbody", {}, *lines))
    # A scrolling region needs keyboard focus and a name.
    scrolls = {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": t("common.numbers")}
    scroller = element("div", scrolls, table)
    return element("details", {"class": "numbers"}, element("summary", {}, t("common.show_as_table")), scroller)


def height_grid(heights: Heights) -> list[Markup]:
    """Build the horizontal grid lines."""
    levels = [heights.of(value) for value in heights.lines]
    return [element("line", {"class": "grid", "x1": "0", "x2": "100%", "y1": y, "y2": y}) for y in levels]


def height_labels(heights: Heights) -> list[Markup]:
    """Build the values of the grid lines. They are drawn last, on top."""
    return [
        element("text", {"class": "label", "x": 2, "y": heights.of(value) - 4}, short(value))
        for value in heights.lines
        if value
    ]


def time_labels(columns: Columns, *, y: float = HEIGHT - 6) -> list[Markup]:
    """Build the times below a chart; the last one has the time zone."""
    drawn: list[Markup] = []
    ticks = columns.ticks
    for at in ticks:
        share = columns.share(at)
        if share is not None:
            label = f"{tick(at)} UTC" if at == ticks[-1] else tick(at)
            drawn.append(element("text", {"class": "label", **anchored(share), "y": y}, label))
    return drawn


def anchored(share: float) -> dict[str, object]:
    """Return position and anchor of a text so that it stays inside the drawing."""
    if share < _EDGE:
        return {"x": percent(0), "text-anchor": "start"}
    if share > 1 - _EDGE:
        return {"x": percent(1), "text-anchor": "end"}
    return {"x": percent(share), "text-anchor": "middle"}


def empty_note(t: Translate, *, height: float = HEIGHT) -> Markup:
    """Build the note of a chart without data."""
    return element("text", {"class": "note", "x": "50%", "y": height / 2, "text-anchor": "middle"}, t("common.no_data"))


def element(name: str, attributes: Mapping[str, object], *children: str) -> Markup:
    """Build an element; children that are not markup are escaped."""
    written = "".join(f' {key}="{escape(_value(value))}"' for key, value in attributes.items())
    return Markup(f"<{name}{written}>{''.join(map(escape, children))}</{name}>")  # noqa: S704 - all parts are escaped


def percent(share: float) -> str:
    """Return a length or position, a fraction (0 to 1) of the chart's width, in percent."""
    return f"{_number(share * 100)}%"


def _value(value: object) -> str:
    return _number(value) if isinstance(value, int | float) else str(value)


def _number(value: float) -> str:
    return f"{round(value, 2):g}" if abs(value) < 1e5 else str(round(value))


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


class Mark(TypedDict):
    """A deploy: its time (epoch seconds) and its label."""

    at: float
    label: str


def draw_marks(marks: Sequence[Mark], columns: Columns, *, bottom: float) -> list[Markup]:
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
