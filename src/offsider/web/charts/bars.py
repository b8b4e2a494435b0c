"""Stacked bars over time; and sparklines in table cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from offsider.screens.time_axis import TimeAxis
from offsider.web.charts.axis import Heights
from offsider.web.charts.figure import BELOW, TOP, Translate, element, exact, figure, grid, moment, percent, short

_HEIGHT = 220.0
_BOTTOM = _HEIGHT - BELOW
_WIDE = 10  # width of a column before the drawing is stretched
_TONES = ("good", "warn", "bad", "info")
#: Size of a sparkline.
_SPARK_WIDTH, _SPARK_HEIGHT = 120.0, 24.0
_SPARK_BOTTOM = _SPARK_HEIGHT - 1


def chart(t: Translate, block: Mapping[str, Any]) -> Markup:
    """Draw a chart (`plain.block` of a `WebChart`): later series are stacked on earlier ones."""
    bars: Sequence[Mapping[str, Any]] = block["bars"]
    totals = [sum(values) for values in zip(*(each["values"] for each in bars), strict=True)]
    columns = TimeAxis(block["starts_at"], block["step_seconds"], len(totals))
    whole = all(float(each).is_integer() for each in totals)
    heights = Heights.over(max(totals, default=0.0), whole=whole, top=TOP, bottom=_BOTTOM)
    unit = f" {block['unit']}" if block["unit"] else ""
    lines = [grid(heights.of(value), f"{short(value)}{unit}" if value else "", 4) for value in heights.lines]
    return figure(
        t,
        block,
        columns,
        summary=_summary(t, bars, totals, columns, unit),
        drawing=[
            *(line for line, _ in lines),
            _stacks(bars, heights, len(totals)),
            *_read_outs(bars, columns, unit),
            *(label for _, label in lines),
        ],
        rows={each["name"]: each["values"] for each in bars},
        height=_HEIGHT,
        legend=_legend(bars),
    )


def _stacks(bars: Sequence[Mapping[str, Any]], heights: Heights, count: int) -> Markup:
    """Draw one path for each series, in a drawing that is stretched to the width of the chart."""
    size = {"width": "100%", "height": _HEIGHT, "preserveAspectRatio": "none"}
    below, paths = [0.0] * count, list[Markup]()
    for position, each in enumerate(bars):
        drawn: list[str] = []
        for at, value in enumerate(each["values"]):
            if value > 0:
                bottom = heights.of(below[at])
                top = min(heights.of(below[at] + value), bottom - 1)  # a small value must stay visible
                drawn.append(f"M{at * _WIDE + 1},{bottom:.1f}V{top:.1f}h{_WIDE - 2}V{bottom:.1f}z")
            below[at] += value
        paths.append(element("path", {"class": f"area {_color(position, each['tone'])}", "d": "".join(drawn)}))
    return element("svg", size | {"viewBox": f"0 0 {max(1, count) * _WIDE} {_HEIGHT:g}"}, *paths)


def _read_outs(bars: Sequence[Mapping[str, Any]], columns: TimeAxis, unit: str) -> list[Markup]:
    """Build the tooltip of each column. The browser shows titles without a script."""
    drawn: list[Markup] = []
    for at, start in enumerate(columns.starts):
        values = [f"{each['name']}: {exact(each['values'][at])}{unit}" for each in bars if each["values"][at]]
        title = element("title", {}, "\n".join([f"{moment(start)} UTC", *values]))
        place = {"x": percent(at / columns.count), "width": percent(1 / columns.count), "height": _BOTTOM}
        drawn.append(element("rect", {"class": "column", "fill": "transparent"} | place, title))
    return drawn


def _summary(
    t: Translate, bars: Sequence[Mapping[str, Any]], totals: Sequence[float], columns: TimeAxis, unit: str
) -> str:
    """Return the content in one sentence; empty without any."""
    if not any(totals):
        return ""
    sums = "; ".join(f"{each['name']} {exact(sum(each['values']))}{unit}" for each in bars)
    highest = max(totals)
    when = moment(columns.starts[totals.index(highest)])
    return f"{t('common.total')}: {sums}. {t('chart.highest')}: {exact(highest)}{unit} ({when} UTC)"


def _legend(bars: Sequence[Mapping[str, Any]]) -> Markup:
    """Build the meaning of the colors; empty for a single series."""
    entries = [element("li", {}, _swatch(at, each["tone"]), each["name"]) for at, each in enumerate(bars)]
    return element("ul", {"class": "legend"}, *entries) if len(entries) > 1 else Markup()


def _swatch(position: int, tone: str) -> Markup:
    size = {"class": f"swatch {_color(position, tone)}", "width": 14, "height": 14, "aria-hidden": "true"}
    return element("svg", size, element("rect", {"width": 14, "height": 14, "rx": 3}))


def _color(position: int, tone: str) -> str:
    """Return the style sheet class of a color."""
    return f"tone-{tone}" if tone in _TONES else f"series-{position % 8 + 1}"


def spark(cell: Mapping[str, Any]) -> Markup:
    """Draw a `WebSpark`; screen readers get the highest value."""
    values: Sequence[float] = cell["values"]
    highest = max(values, default=0.0)
    heights = Heights.over(highest, whole=False, top=1, bottom=_SPARK_BOTTOM)
    base = {"class": "grid", "x1": 0, "x2": _SPARK_WIDTH, "y1": _SPARK_BOTTOM, "y2": _SPARK_BOTTOM}
    # One path instead of an element per bar, because a page has many sparklines.
    step = _SPARK_WIDTH / max(1, len(values))
    bars = "".join(
        f"M{(at + 0.5) * step:.1f},{_SPARK_BOTTOM:g}V{min(heights.of(value), _SPARK_BOTTOM - 1):.1f}"
        for at, value in enumerate(values)
        if value > 0
    )
    path = element("path", {"class": "bars", "d": bars, "stroke-width": step * 0.8})
    size = {"class": f"sparkline {_color(0, cell['tone'])}", "width": _SPARK_WIDTH, "height": _SPARK_HEIGHT}
    title = element("title", {}, f"≤ {exact(highest)}")
    return element("svg", size | {"role": "img", "direction": "ltr"}, title, element("line", base), path)
