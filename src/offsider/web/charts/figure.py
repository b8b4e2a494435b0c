"""What every chart has around its drawing: a name, a grid, a legend, and its numbers as a table.

A drawing is as wide as the page lets it be, and its text keeps its size: places from left to right are percentages,
heights are pixels. Only lines need a drawing inside of the drawing, which is stretched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from markupsafe import Markup

from offsider.web.charts.axis import Columns, Heights
from offsider.web.charts.readable import short, tick
from offsider.web.charts.svg import element, percent

Translate = Callable[[str], str]
"""From an English text to the text in the language of the page."""

HEIGHT = 240.0
TOP = 34.0  # room for the labels of deploy marks
BOTTOM = 216.0  # room for the times below
_EDGE = 0.04  # a label nearer to an edge would leave the drawing


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
    """A chart with everything around it; whoever cannot see the drawing hears title and summary and reads the table.

    Args:
        title: names the drawing.
        summary: what it shows.
        drawing: its elements.
        legend, table: what `legend` and `numbers` made.
        height: of the drawing, in pixels.
        caption: says above the drawing what its values are; who hears the page has heard it in the title.
    """
    # The direction is given because text anchors turn round with it, and time runs from left to right in every chart.
    attributes = {"class": "plot", "width": "100%", "height": height, "role": "img", "direction": "ltr"}
    svg = element("svg", attributes, element("title", {}, title), element("desc", {}, summary), *drawing)
    above = element("p", {"class": "caption", "aria-hidden": "true"}, caption) if caption else ""
    return element("figure", {"class": "chart"}, above, svg, legend, table)


def legend(names: Sequence[str]) -> Markup:
    """Which colour is which; nothing to say when there is one only."""
    if len(names) < 2:
        return Markup()
    entries = [element("li", {}, swatch(at), name) for at, name in enumerate(names)]
    return element("ul", {"class": "legend"}, *entries)


def swatch(position: int | None) -> Markup:
    """The colour of the series at this position; an empty field for what is not drawn."""
    attributes = {
        "class": "swatch" if position is None else f"swatch {colour(position)}",
        "width": 14,
        "height": 14,
        "aria-hidden": "true",
    }
    return element("svg", attributes, element("rect", {"width": 14, "height": 14, "rx": 3}))


def colour(position: int) -> str:
    """The class with which the style sheet colours a series, in light and in dark."""
    return f"series-{position % 8 + 1}"


def numbers(t: Translate, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """The table that says what the drawing shows, closed until somebody wants it."""
    heads = [element("th", {"scope": "col"}, each) for each in head]
    lines = [
        element("tr", {}, element("th", {"scope": "row"}, row[0]), *(element("td", {}, each) for each in row[1:]))
        for row in rows
    ]
    table = element("table", {}, element("thead", {}, element("tr", {}, *heads)), element("tbody", {}, *lines))
    # What scrolls must be reachable with the keyboard, and then it needs a name.
    scroller = element("div", {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": t("Numbers")}, table)
    return element("details", {"class": "numbers"}, element("summary", {}, t("Show as table")), scroller)


def height_grid(heights: Heights) -> list[Markup]:
    """Level lines."""
    levels = [heights.of(value) for value in heights.lines]
    return [element("line", {"class": "grid", "x1": "0", "x2": "100%", "y1": y, "y2": y}) for y in levels]


def height_labels(heights: Heights) -> list[Markup]:
    """The values of the level lines. They are drawn last, over what would hide them."""
    return [
        element("text", {"class": "label", "x": 2, "y": heights.of(value) - 4}, short(value))
        for value in heights.lines
        if value
    ]


def time_labels(columns: Columns, *, y: float = HEIGHT - 6) -> list[Markup]:
    """The round times under a chart; the last one says of which zone they are."""
    drawn: list[Markup] = []
    ticks = columns.ticks
    for at in ticks:
        share = columns.share(at)
        if share is not None:
            label = f"{tick(at)} UTC" if at == ticks[-1] else tick(at)
            drawn.append(element("text", {"class": "label", **anchored(share), "y": y}, label))
    return drawn


def anchored(share: float) -> dict[str, object]:
    """Place and anchor of a text, so that it stays inside."""
    if share < _EDGE:
        return {"x": percent(0), "text-anchor": "start"}
    if share > 1 - _EDGE:
        return {"x": percent(1), "text-anchor": "end"}
    return {"x": percent(share), "text-anchor": "middle"}


def empty_note(t: Translate, *, height: float = HEIGHT) -> Markup:
    """What stands in a chart that has nothing to show."""
    return element("text", {"class": "note", "x": "50%", "y": height / 2, "text-anchor": "middle"}, t("Nothing yet"))
