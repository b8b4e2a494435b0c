"""Line charts over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypedDict

from markupsafe import Markup

from offsider.web.charts.axis import Columns, Heights
from offsider.web.charts.figure import (
    BOTTOM,
    HEIGHT,
    TOP,
    Mark,
    Translate,
    clock,
    color,
    draw_marks,
    element,
    empty_note,
    exact,
    figure,
    height_grid,
    height_labels,
    legend,
    moment,
    numbers,
    percent,
    time_labels,
)

NOTHING = "\N{EN DASH}"
_STRETCHED = 1000  # width of the drawing before it is stretched


class ChartLine(TypedDict):
    """A series: a name and a value for each column; None is unknown and leaves a gap."""

    name: str
    values: Sequence[float | None]


class Zone(TypedDict):
    """The target range: its name, and its lowest and highest value."""

    name: str
    low: float
    high: float


def lines(
    t: Translate,
    series: Sequence[ChartLine],
    columns: Columns,
    *,
    title: str,
    unit: str = "",
    marks: Sequence[Mark] = (),
    whole: bool = False,
    running: bool = False,
    zone: Zone | None = None,
) -> Markup:
    """Draw a line chart.

    Args:
        t: the page's translations.
        series: the series; each has one value per column.
        columns: time range of the chart.
        title: meaning of the values.
        unit: unit of the values, shown in the tooltips.
        marks: deploys to show.
        whole: values are counts, so the scale has only whole numbers.
        running: the last column is incomplete. Its value still grows and would look like an outage, so it is drawn
            only once it reaches the value before it.
        zone: target range. With it, lines that stay at 0 are drawn too, because they are below the target.
    """
    highest = max(map(_highest, series), default=0.0)
    heights = Heights.over(max(highest, zone["high"]) if zone else highest, whole=whole, top=TOP, bottom=BOTTOM)
    drawing = [*_band(zone, heights), *height_grid(heights), *time_labels(columns)]
    if highest > 0 or (zone and series):
        drawing += [_stretched(series, columns, heights, running=running), *_lone_points(series, columns, heights)]
    else:
        drawing.append(empty_note(t))
    drawing += [
        *height_labels(heights),
        *_zone_name(zone, heights),
        *_read_outs(series, columns, unit),
        *draw_marks(marks, columns, bottom=BOTTOM),
    ]
    return figure(
        title=title,
        caption=title,
        summary=_summary(t, series, columns, unit),
        drawing=drawing,
        legend=legend([each["name"] for each in series]),
        table=_table(t, series, columns),
    )


def live(t: Translate, columns: Columns, processed: Sequence[float], failed: Sequence[float]) -> Markup:
    """Draw the runs in each column of the last minutes."""
    series: list[ChartLine] = [
        {"name": t("term.processed"), "values": processed},
        {"name": t("term.failed"), "values": failed},
    ]
    return lines(t, series, columns, title=t("chart.runs_per_minute"), whole=True, running=True)


def _band(zone: Zone | None, heights: Heights) -> list[Markup]:
    if zone is None:
        return []
    top, bottom = heights.of(zone["high"]), heights.of(zone["low"])
    return [element("rect", {"class": "zone", "x": 0, "width": "100%", "y": top, "height": bottom - top})]


def _zone_name(zone: Zone | None, heights: Heights) -> list[Markup]:
    """Build the name of the target range, drawn last, on top of the lines."""
    if zone is None:
        return []
    place = {"class": "label", "x": "100%", "dx": -4, "y": heights.of(zone["high"]) - 4, "text-anchor": "end"}
    return [element("text", place, zone["name"])]


def _stretched(series: Sequence[ChartLine], columns: Columns, heights: Heights, *, running: bool) -> Markup:
    size: dict[str, object] = {"width": "100%", "height": HEIGHT}
    box: dict[str, object] = {"viewBox": f"0 0 {_STRETCHED} {HEIGHT:g}", "preserveAspectRatio": "none"}
    drawn = [_ended(each["values"]) if running else each["values"] for each in series]
    paths = [path for at, values in enumerate(drawn) for path in _paths(values, at, columns, heights)]
    return element("svg", size | box, *paths)


def _ended(values: Sequence[float | None]) -> Sequence[float | None]:
    return values[:-1] if len(values) > 1 and (values[-1] or 0.0) < (values[-2] or 0.0) else values


def _paths(values: Sequence[float | None], position: int, columns: Columns, heights: Heights) -> Iterator[Markup]:
    """Build a line for each segment between gaps."""
    for piece in _pieces(values):
        points = " ".join(f"{columns.middle(at) * _STRETCHED:.1f},{heights.of(value):.1f}" for at, value in piece)
        attributes = {"class": f"line {color(position)}", "points": points, "fill": "none"}
        yield element("polyline", attributes | {"vector-effect": "non-scaling-stroke"})


def _pieces(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    pieces: list[list[tuple[int, float]]] = [[]]
    for at, value in enumerate(values):
        if value is not None:
            pieces[-1].append((at, value))
        elif pieces[-1]:
            pieces.append([])
    return [piece for piece in pieces if piece]


def _lone_points(series: Sequence[ChartLine], columns: Columns, heights: Heights) -> list[Markup]:
    """Build a dot for each segment of a single point."""
    return [
        element(
            "circle",
            {
                "class": f"dot {color(at)}",
                "cx": percent(columns.middle(piece[0][0])),
                "cy": heights.of(piece[0][1]),
                "r": 4,
            },
        )
        for at, each in enumerate(series)
        for piece in _pieces(each["values"])
        if len(piece) == 1
    ]


def _highest(series: ChartLine) -> float:
    return max((value for value in series["values"] if value is not None), default=0.0)


def _read_outs(series: Sequence[ChartLine], columns: Columns, unit: str) -> list[Markup]:
    """Build the tooltip of each column. The browser shows titles without a script."""
    drawn: list[Markup] = []
    for at, start in enumerate(columns.starts):
        values = [f"{each['name']}: {exact(value)} {unit}".rstrip() for each in series if (value := each["values"][at])]
        title = element("title", {}, "\n".join([f"{clock(start)} UTC", *values]))
        place = {"x": percent(at / columns.count), "width": percent(1 / columns.count), "height": BOTTOM}
        drawn.append(element("rect", {"class": "column", "fill": "transparent"} | place, title))
    return drawn


def _summary(t: Translate, series: Sequence[ChartLine], columns: Columns, unit: str) -> str:
    highest = [f"{each['name']} {exact(_highest(each))} {unit}".rstrip() for each in series]
    times = f"{moment(columns.starts_at)} to {moment(columns.ends_at)} UTC"
    return f"{times}. {t('chart.highest')}: {'; '.join(highest)}" if highest else f"{times}. {t('common.no_data')}"


def _table(t: Translate, series: Sequence[ChartLine], columns: Columns) -> Markup:
    head = [t("chart.time"), *(each["name"] for each in series)]
    return numbers(t, head, _rows(series, columns))


def _rows(series: Sequence[ChartLine], columns: Columns) -> list[list[str]]:
    """Build the rows, newest first, without empty columns."""
    rows = [
        [moment(start), *(NOTHING if (value := each["values"][at]) is None else exact(value) for each in series)]
        for at, start in enumerate(columns.starts)
        if any(each["values"][at] for each in series)
    ]
    return rows[::-1]
