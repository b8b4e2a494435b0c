"""The parts of every chart: title, grid, legend, and the numbers as a table.

A drawing is as wide as the page allows, and its text keeps its size: horizontal positions are percentages, heights are
pixels. Only lines need a nested drawing, which is stretched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from markupsafe import Markup

from offsider.web.charts.axis import Columns, Heights
from offsider.web.charts.readable import short, tick
from offsider.web.charts.svg import element, percent

Translate = Callable[[str], str]
"""Translates a message to the language of the page."""

HEIGHT = 240.0
TOP = 34.0  # room for the labels of deploy marks
BOTTOM = 216.0  # room for the times below
_EDGE = 0.04  # a label closer to an edge would leave the drawing


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
