"""Heat map: time from left to right, ranges from bottom to top, counts as color intensity, failures hatched."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from offsider.screens.time_axis import TimeAxis
from offsider.web.charts.figure import BELOW, TOP, Translate, element, exact, figure, grid, moment, percent

_ROW = 22.0
_STRENGTHS = 5
_HATCH = "failed-runs"


def heat(t: Translate, block: Mapping[str, Any]) -> Markup:
    """Draw a heat map (`plain.block` of a `WebHeatMap`): a field for each column and range with a count."""
    rows: Sequence[Mapping[str, Any]] = block["rows"]
    used = [at for at, row in enumerate(rows) if any(row["values"])]
    # Empty rows between used rows stay, to show the gap between fast and slow runs.
    shown = rows[used[0] : used[-1] + 1] if used else rows[:0]
    columns = TimeAxis(block["starts_at"], block["step_seconds"], len(rows[0]["values"]) if rows else 0)
    bottom = TOP + _ROW * max(len(shown), 3)
    lines = [grid(bottom - _ROW * level, row["name"], 7) for level, row in enumerate(shown)]
    most = max((max(row["values"]) for row in shown), default=0)
    return figure(
        t,
        block,
        columns,
        summary="; ".join(f"{rows[at]['name']}: {exact(sum(rows[at]['values']))}" for at in used),
        drawing=[
            _pattern(),
            *(each for level, row in enumerate(shown) for each in _fields(row, columns, bottom - _ROW * level, most)),
            *(line for line, _ in lines),
            *(label for _, label in lines),
        ],
        rows={row["name"]: row["values"] for row in shown},
        height=bottom + BELOW,
    )


def _pattern() -> Markup:
    lines = element("path", {"class": "hatch", "d": "M-1,1l2,-2M0,6l6,-6M5,7l2,-2"})
    size = {"id": _HATCH, "width": 6, "height": 6, "patternUnits": "userSpaceOnUse"}
    return element("defs", {}, element("pattern", size, lines))


def _fields(row: Mapping[str, Any], columns: TimeAxis, y: float, most: int) -> list[Markup]:
    drawn: list[Markup] = []
    for at, (count, failed) in enumerate(zip(row["values"], row["failed"], strict=True)):
        if not count:
            continue
        text = f"{moment(columns.starts[at])} UTC\n{row['name']}: {exact(count)}"
        title = element("title", {}, f"{text} ({exact(failed)} failed)" if failed else text)
        place: dict[str, object] = {"x": percent(at / columns.count), "width": percent(1 / columns.count)}
        place |= {"y": y - _ROW + 1, "height": _ROW - 2}
        drawn.append(element("rect", {"class": f"field heat-{_strength(count, most)}"} | place, title))
        if failed:
            drawn.append(element("rect", {"class": "hatched", "fill": f"url(#{_HATCH})"} | place))
    return drawn


def _strength(count: int, most: int) -> int:
    """Return an intensity of 1 to 5, by the square root: one slow run stays visible among thousands of fast ones."""
    return max(1, math.ceil(_STRENGTHS * math.sqrt(count / most)))
