"""Heat map: time from left to right, durations from bottom to top, job counts as color intensity."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from offsider.web.charts.axis import Columns
from offsider.web.charts.figure import (
    Mark,
    Translate,
    clock,
    draw_marks,
    element,
    empty_note,
    exact,
    figure,
    moment,
    numbers,
    percent,
    time_labels,
)

_ROW = 22.0
_TOP = 34.0
_BELOW = 24.0
_STRENGTHS = 5


def heat(
    t: Translate,
    counts: Sequence[Sequence[int]],
    columns: Columns,
    labels: Sequence[str],
    *,
    title: str,
    marks: Sequence[Mark] = (),
) -> Markup:
    """Draw a cell for each column and duration with jobs.

    Args:
        t: the page's translations.
        counts: for each column, one count per label.
        columns: time range of the chart.
        labels: durations, shortest first.
        title: title for screen readers.
        marks: deploys to show.
    """
    used = [at for at in range(len(labels)) if any(column[at] for column in counts)]
    # Empty rows between used rows stay, to show the gap between fast and slow runs.
    rows = range(used[0], used[-1] + 1) if used else range(0)
    bottom = _TOP + _ROW * max(len(rows), 3)
    height = bottom + _BELOW
    fields = _fields(counts, columns, rows, labels, bottom) if rows else [empty_note(t, height=height)]
    # Labels are drawn last, on top of the cells.
    drawing = [*fields, *time_labels(columns, y=height - 6), *_row_labels(rows, labels, bottom)]
    return figure(
        title=title,
        summary=_summary(t, counts, used, labels),
        drawing=[*drawing, *draw_marks(marks, columns, bottom=bottom)],
        legend="",
        table=_table(t, counts, columns, rows, labels),
        height=height,
    )


def _row_labels(rows: range, labels: Sequence[str], bottom: float) -> list[Markup]:
    drawn: list[Markup] = []
    for level, row in enumerate(rows):
        y = bottom - _ROW * level
        drawn.append(element("line", {"class": "grid", "x1": "0", "x2": "100%", "y1": y, "y2": y}))
        drawn.append(element("text", {"class": "label", "x": 2, "y": y - 7}, labels[row]))
    return drawn


def _fields(
    counts: Sequence[Sequence[int]], columns: Columns, rows: range, labels: Sequence[str], bottom: float
) -> list[Markup]:
    most = max(max(column) for column in counts)
    drawn: list[Markup] = []
    for at, start in enumerate(columns.starts):
        for level, row in enumerate(rows):
            count = counts[at][row]
            if count:
                title = element("title", {}, f"{clock(start)} UTC\n{labels[row]}: {exact(count)}")
                place: dict[str, object] = {"x": percent(at / columns.count), "width": percent(1 / columns.count)}
                size: dict[str, object] = {"y": bottom - _ROW * (level + 1) + 1, "height": _ROW - 2}
                drawn.append(element("rect", {"class": f"field heat-{_strength(count, most)}"} | place | size, title))
    return drawn


def _strength(count: int, most: int) -> int:
    """Return an intensity of 1 to 5, by the square root: one slow run stays visible among thousands of fast ones."""
    return max(1, math.ceil(_STRENGTHS * math.sqrt(count / most)))


def _summary(t: Translate, counts: Sequence[Sequence[int]], used: Sequence[int], labels: Sequence[str]) -> str:
    if not used:
        return t("common.no_data")
    totals = {at: sum(column[at] for column in counts) for at in used}
    return "; ".join(f"{labels[at]}: {exact(total)}" for at, total in totals.items())


def _table(
    t: Translate, counts: Sequence[Sequence[int]], columns: Columns, rows: range, labels: Sequence[str]
) -> Markup:
    lines = [
        [moment(start), *(exact(counts[at][row]) for row in rows)]
        for at, start in enumerate(columns.starts)
        if any(counts[at])
    ]
    return numbers(t, [t("chart.time"), *(f"{labels[row]}" for row in rows)], lines[::-1])
