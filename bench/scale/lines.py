"""Draws the curves: panels of lines on logarithmic axes, as SVG in the style of `bench.compare.chart`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from bench.compare.chart import STYLE

COLUMNS, PANEL_WIDTH, PANEL_HEIGHT = 2, 380, 230
LEFT, RIGHT, TOP, BOTTOM = 44, 14, 30, 40
LEGEND = 30
#: The smallest range of the vertical axis, so that noise does not look like growth.
LEAST, MOST = 0.5, 4.0
COLORS = ("#0f7b6c", "#b35900", "#5b6ee1", "#8250df")
MORE_STYLE = "  .grid { stroke: #b1bac4; stroke-width: 0.5; }\n  .small { font-size: 11px; }\n" + "".join(
    f"  .line{number} {{ stroke: {color}; fill: none; stroke-width: 2; }}\n  .dot{number} {{ fill: {color}; }}\n"
    for number, color in enumerate(COLORS)
)


@dataclass(frozen=True)
class Panel:
    """One set of lines.

    Attributes:
        title: the quantity on the horizontal axis.
        lines: for each line its points, with a value relative to that of the first point.
    """

    title: str
    lines: Sequence[Sequence[tuple[float, float]]]


def chart(panels: Sequence[Panel], names: Sequence[str], *, description: str) -> str:
    """Return the SVG text. ``names`` are those of the lines, in the order in which each panel has them."""
    width = COLUMNS * PANEL_WIDTH
    height = LEGEND + math.ceil(len(panels) / COLUMNS) * PANEL_HEIGHT
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    label = escape(description, {'"': "&quot;"})
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}">',
        f"<style>{STYLE}{MORE_STYLE}</style>",
    ]
    for number, name in enumerate(names):
        x = 8 + number * (width - 16) // len(names)
        parts.append(f'<circle class="dot{number}" cx="{x + 5}" cy="14" r="5"/>')
        parts.append(f'<text x="{x + 16}" y="18">{escape(name)}</text>')
    for place, panel in enumerate(panels):
        left, top = place % COLUMNS * PANEL_WIDTH, LEGEND + place // COLUMNS * PANEL_HEIGHT
        parts += [f'<g transform="translate({left} {top})">', *_panel(panel), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel) -> list[str]:
    values = [value for line in panel.lines for _, value in line]
    places = sorted({place for line in panel.lines for place, _ in line})
    low = math.floor(math.log2(min([LEAST, *values])))
    high = math.ceil(math.log2(max([MOST, *values])))
    first, last = _log(places[0]), _log(places[-1])
    span = max(last - first, 0.1)

    def x(place: float) -> float:
        return LEFT + (_log(place) - first) / span * (PANEL_WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return TOP + (high - math.log2(value)) / (high - low) * (PANEL_HEIGHT - TOP - BOTTOM)

    parts = [f'<text class="title" x="{LEFT}" y="16">{escape(panel.title)}</text>']
    for power in range(low, high + 1, max(1, (high - low) // 5)):
        level = y(2**power)
        parts += [
            f'<line class="grid" x1="{LEFT}" y1="{level:.1f}" x2="{PANEL_WIDTH - RIGHT}" y2="{level:.1f}"/>',
            f'<text class="value small" x="{LEFT - 6}" y="{level + 4:.1f}" text-anchor="end">{2.0**power:g}x</text>',
        ]
    bottom = PANEL_HEIGHT - BOTTOM + 18
    written_to = -math.inf
    for place in places:
        if x(place) >= written_to:
            text = short(place)
            parts.append(
                f'<text class="value small" x="{x(place):.1f}" y="{bottom}" text-anchor="middle">{text}</text>'
            )
            written_to = x(place) + 34
    for number, line in enumerate(panel.lines):
        dots = [(x(place), y(value)) for place, value in line]
        parts.append(f'<polyline class="line{number}" points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in dots)}"/>')
        parts += [f'<circle class="dot{number}" cx="{a:.1f}" cy="{b:.1f}" r="2.5"/>' for a, b in dots]
    return parts


def _log(place: float) -> float:
    return math.log10(max(place, 1.0))


def short(number: float) -> str:
    """Return a number in few characters: 1,000 is 1k, 10,000,000 is 10M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:g}{letter}"
    return f"{number:g}"
