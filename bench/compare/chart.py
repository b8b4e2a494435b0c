"""Draws the chart: horizontal bars in panels, as SVG without fonts or scripts, for light and dark backgrounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH = 760
LABELS = 150  # to the left of the bars
VALUES = 90  # to their right
BAR, GAP, TITLE, SPACE = 16, 6, 30, 22
STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
  .title { font-weight: 600; font-size: 14px; }
  .value { fill: #59636e; }
  .other { fill: #b1bac4; }
  .ours { fill: #0f7b6c; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .value { fill: #9198a1; }
    .other { fill: #484f58; }
    .ours { fill: #2bb3a0; }
  }
"""


@dataclass(frozen=True)
class Panel:
    """One set of bars.

    Attributes:
        title: the measured quantity, with its unit and which direction is better.
        bars: name and value of each bar, from top to bottom.
        digits: decimal digits of the values.
    """

    title: str
    bars: Sequence[tuple[str, float]]
    digits: int = 0

    @property
    def height(self) -> int:
        return TITLE + len(self.bars) * (BAR + GAP)


def chart(panels: Sequence[Panel], *, highlight: str, description: str) -> str:
    """Return the SVG text of all panels that have bars."""
    shown = [panel for panel in panels if panel.bars]
    height = sum(panel.height + SPACE for panel in shown)
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    label = escape(description, {'"': "&quot;"})
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}">',
        f"<style>{STYLE}</style>",
    ]
    top = 0
    for panel in shown:
        parts += _panel(panel, top, highlight)
        top += panel.height + SPACE
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, top: int, highlight: str) -> list[str]:
    longest = max(value for _, value in panel.bars) or 1.0
    parts = [f'<text class="title" x="0" y="{top + 16}">{escape(panel.title)}</text>']
    for index, (name, value) in enumerate(panel.bars):
        y = top + TITLE + index * (BAR + GAP)
        width = max(1.0, value / longest * (WIDTH - LABELS - VALUES))
        kind = "ours" if name == highlight else "other"
        parts += [
            f'<text x="{LABELS - 8}" y="{y + 12}" text-anchor="end">{escape(name)}</text>',
            f'<rect class="{kind}" x="{LABELS}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2"/>',
            f'<text class="value" x="{LABELS + width + 6:.1f}" y="{y + 12}">{value:,.{panel.digits}f}</text>',
        ]
    return parts
