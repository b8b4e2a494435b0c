"""Bar charts, with stacked bars for several series; and small drawings in table cells: sparklines and shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from markupsafe import Markup

from offsider.web.charts.axis import Heights
from offsider.web.charts.figure import (
    BOTTOM,
    HEIGHT,
    Translate,
    anchored,
    color,
    element,
    empty_note,
    exact,
    figure,
    height_grid,
    height_labels,
    legend,
    numbers,
    percent,
)

_TOP = 18.0
_ALL_LABELS = 32  # above this the labels are dates, and only some are drawn
_SOME_LABELS = 8
#: Size of a sparkline.
_WIDTH, _HEIGHT = 120.0, 24.0
_BOTTOM = _HEIGHT - 1


class BarSeries(TypedDict):
    """A series: a name and a count for each label."""

    name: str
    values: Sequence[float]


def bars(
    t: Translate, series: Sequence[BarSeries], labels: Sequence[str], *, title: str, axis: str, caption: str = ""
) -> Markup:
    """Draw a bar for each label; later series are stacked on earlier ones.

    Args:
        t: the page's translations.
        series: the series; each has one value per label.
        labels: labels below the bars.
        title: title for screen readers.
        axis: meaning of the labels, the first column heading of the table.
        caption: text above the chart.
    """
    totals = [sum(each["values"][at] for each in series) for at in range(len(labels))]
    highest = max(totals, default=0.0)
    heights = Heights.over(highest, whole=True, top=_TOP, bottom=BOTTOM)
    drawing = [*height_grid(heights), *_labels(labels)]
    drawing += _columns(series, labels, heights) if highest > 0 else [empty_note(t)]
    drawing += height_labels(heights)
    return figure(
        title=title,
        caption=caption,
        summary=_summary(t, series, labels, totals),
        drawing=drawing,
        legend=legend([each["name"] for each in series]),
        table=numbers(t, [axis, *(each["name"] for each in series)], _rows(series, labels)),
    )


def history(t: Translate, days: Sequence[str], processed: Sequence[int], failed: Sequence[int]) -> Markup:
    """Draw the runs per day, failed runs stacked on successful ones.

    Args:
        t: the page's translations.
        days: ``YYYY-MM-DD``, oldest first.
        processed: runs of each day, like Sidekiq including failed ones.
        failed: failed runs of each day.
    """
    # The two counters of a day are not written together, so failures may exceed runs for a moment.
    succeeded = [max(0, run - bad) for run, bad in zip(processed, failed, strict=True)]
    series: list[BarSeries] = [
        {"name": t("term.succeeded"), "values": succeeded},
        {"name": t("term.failed"), "values": failed},
    ]
    title = t("chart.runs_per_day")
    return bars(t, series, [day[5:] for day in days], title=title, caption=title, axis=t("chart.day"))


def _columns(series: Sequence[BarSeries], labels: Sequence[str], heights: Heights) -> list[Markup]:
    return [_column(series, label, at, len(labels), heights) for at, label in enumerate(labels)]


def _column(series: Sequence[BarSeries], label: str, at: int, count: int, heights: Heights) -> Markup:
    text = "\n".join([label, *(f"{each['name']}: {exact(each['values'][at])}" for each in series)])
    place = {"x": percent(at / count), "width": percent(1 / count), "height": BOTTOM}
    drawn = [element("title", {}, text), element("rect", {"class": "column", "fill": "transparent"} | place)]
    below = 0.0
    for position, each in enumerate(series):
        value = each["values"][at]
        if value > 0:
            drawn.append(_bar(position, (at + 0.1) / count, 0.8 / count, heights.of(below), heights.of(below + value)))
        below += value
    return element("g", {}, *drawn)


def _bar(position: int, x: float, width: float, bottom: float, top: float) -> Markup:
    # A small value must stay visible.
    height = max(bottom - top, 1.0)
    place = {"x": percent(x), "width": percent(width), "y": bottom - height, "height": height}
    return element("rect", {"class": f"bar {color(position)}"} | place)


def _labels(labels: Sequence[str]) -> list[Markup]:
    count = len(labels)
    step = 1 if count <= _ALL_LABELS else -(-count // _SOME_LABELS)
    return [
        element(
            "text",
            {"class": _room(at) if step == 1 else "label", **anchored((at + 0.5) / count), "y": HEIGHT - 6},
            labels[at],
        )
        for at in range(0, count, step)
    ]


def _room(position: int) -> str:
    """Return the class of a label; on a narrow page the style sheet hides half of the labels, then half of the rest.

    The first label is hidden early: at the edge it would be moved inward, against the next one.
    """
    if position % 4 == 2:
        return "label"
    return "label wide" if position % 2 == 0 else "label widest"


def _summary(t: Translate, series: Sequence[BarSeries], labels: Sequence[str], totals: Sequence[float]) -> str:
    if not any(totals):
        return t("common.no_data")
    sums = "; ".join(f"{each['name']} {exact(sum(each['values']))}" for each in series)
    highest = max(totals)
    when = labels[list(totals).index(highest)]
    return f"{t('common.total')}: {sums}. {t('chart.highest')}: {exact(highest)} ({when})"


def _rows(series: Sequence[BarSeries], labels: Sequence[str]) -> list[list[str]]:
    return [[label, *(exact(each["values"][at]) for each in series)] for at, label in enumerate(labels)]


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
    bars = "".join(_spark(at, step, heights.of(value)) for at, value in enumerate(values) if value > 0)
    path = element("path", {"class": "bars", "d": bars, "stroke-width": step * 0.8})
    size = {"class": f"sparkline {color(position)}", "width": _WIDTH, "height": _HEIGHT, "role": "img"}
    return element("svg", size | {"direction": "ltr"}, label, base, path)


def _spark(at: int, step: float, top: float) -> str:
    return f"M{(at + 0.5) * step:.1f},{_BOTTOM:g}V{min(top, _BOTTOM - 1):.1f}"


def share(part: float, whole: float) -> Markup:
    """Draw a share of a whole, without text: the number is next to it."""
    width = percent(min(max(part / whole, 0.0), 1.0)) if whole > 0 else "0%"
    bar = element("rect", {"class": "bar", "width": width, "height": 10, "rx": 2})
    return element("svg", {"class": "share series-1", "width": "100%", "height": 10, "aria-hidden": "true"}, bar)
