"""The parts of every chart: elements, title, grid, marks, readable values, and the numbers as a table.

A drawing is as wide as the page allows, and its text keeps its size: horizontal positions are percentages, heights are
pixels. Values are short, and the same in every language.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup, escape

from offsider.screens.time_axis import TimeAxis

Translate = Callable[[str], str]
"""Translates a message to the language of the page."""

TOP = 34.0  # room for the labels of marks
BELOW = 24.0  # room for the times
_EDGE = 0.04  # a label closer to an edge would leave the drawing
_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
#: Characters of the label of a mark.
LONGEST_LABEL = 24
_LINES = 2  # labels of neighbors alternate between two lines


def figure(
    t: Translate,
    block: Mapping[str, Any],
    columns: TimeAxis,
    *,
    summary: str,
    drawing: Iterable[str],
    rows: Mapping[str, Sequence[float]],
    height: float,
    legend: str = "",
) -> Markup:
    """Build a chart. Screen readers get title, summary and the table of the numbers.

    Args:
        t: the page's translations.
        block: the chart as JSON values.
        columns: its time range.
        summary: the content in one sentence.
        drawing: elements of the drawing, without times and marks.
        rows: the values of each column by their name, for the table.
        height: height of the drawing, in pixels.
        legend: the meaning of the colors.
    """
    head = [element("title", {}, block["title"]), element("desc", {}, summary)]
    over = [*_times(columns, height - 6), *_marks(block["marks"], columns, height - BELOW)]
    if not summary:
        place = {"class": "note", "x": "50%", "y": height / 2, "text-anchor": "middle"}
        over.append(element("text", place, t("common.no_data")))
    # Text anchors depend on the direction, and in every chart time runs from left to right.
    attributes = {"class": "plot", "width": "100%", "height": height, "role": "img", "direction": "ltr"}
    svg = element("svg", attributes, *head, *drawing, *over)
    return element("figure", {"class": "chart"}, svg, legend, _numbers(t, columns, rows))


def _numbers(t: Translate, columns: TimeAxis, rows: Mapping[str, Sequence[float]]) -> Markup:
    """Build the table of the numbers, newest first and without empty columns, closed by default."""
    heads = [element("th", {"scope": "col"}, each) for each in (t("chart.time"), *rows)]
    lines = [
        element(
            "tr",
            {},
            element("th", {"scope": "row"}, moment(start)),
            *(element("td", {}, exact(values[at])) for values in rows.values()),
        )
        for at, start in reversed([*enumerate(columns.starts)])
        if any(values[at] for values in rows.values())
    ]
    table = element("table", {}, element("thead", {}, element("tr", {}, *heads)), element("tbody", {}, *lines))
    # A scrolling region needs keyboard focus and a name.
    scrolls = {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": t("common.numbers")}
    scroller = element("div", scrolls, table)
    return element("details", {"class": "numbers"}, element("summary", {}, t("common.show_as_table")), scroller)


def grid(y: float, label: str, above: float) -> tuple[Markup, Markup]:
    """Build a horizontal line and its label, which is drawn later, on top of the values."""
    line = element("line", {"class": "grid", "x1": "0", "x2": "100%", "y1": y, "y2": y})
    return line, element("text", {"class": "label", "x": 2, "y": y - above}, label)


def _times(columns: TimeAxis, y: float) -> list[Markup]:
    """Build the times below a chart; the last one has the time zone."""
    drawn: list[Markup] = []
    ticks = columns.ticks
    for at in ticks:
        share = (at - columns.starts_at) / (columns.ends_at - columns.starts_at)
        label = f"{_tick(at)} UTC" if at == ticks[-1] else _tick(at)
        drawn.append(element("text", {"class": "label", **_anchored(share), "y": y}, label))
    return drawn


def _anchored(share: float) -> dict[str, object]:
    """Return position and anchor of a text so that it stays inside the drawing."""
    if share < _EDGE:
        return {"x": percent(0), "text-anchor": "start"}
    if share > 1 - _EDGE:
        return {"x": percent(1), "text-anchor": "end"}
    return {"x": percent(share), "text-anchor": "middle"}


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


def moment(at: float) -> str:
    """Return date and time in UTC: ``2026-11-21 14:05``."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}"


def _tick(at: float) -> str:
    """Return the time of day in UTC, or the date at midnight."""
    when = datetime.fromtimestamp(at, UTC)
    return f"{when:%m-%d}" if at % 86_400 == 0 else f"{when:%H:%M}"


def _marks(marks: Sequence[Mapping[str, Any]], columns: TimeAxis, bottom: float) -> list[Markup]:
    """Draw the marks inside the time range of the chart."""
    drawn: list[Markup] = []
    for position, mark in enumerate(marks):
        share = columns.share(mark["at"])
        if share is not None:
            drawn.append(_mark(mark, share, 12.0 + 13 * (position % _LINES), bottom))
    return drawn


def _mark(mark: Mapping[str, Any], share: float, y: float, bottom: float) -> Markup:
    x, label = percent(share), str(mark["label"])
    line = element("line", {"x1": x, "x2": x, "y1": y - 8, "y2": bottom})
    # In the right half the label is left of its line, where there is space.
    right = share > 0.5
    place: dict[str, object] = {
        "x": x,
        "y": y,
        "dx": -4 if right else 4,
        "text-anchor": "end" if right else "start",
    }
    title = element("title", {}, f"{moment(mark['at'])} UTC: {label}")
    cut = label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"
    return element("g", {"class": "mark"}, title, line, element("text", place, cut))
