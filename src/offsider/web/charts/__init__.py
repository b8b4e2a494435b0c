"""Charts as server-side SVG: without scripts and style attributes, accessible, and responsive."""

from offsider.web.charts.axis import Columns
from offsider.web.charts.bars import Series, bars, history, share, sparkline
from offsider.web.charts.figure import Mark, swatch
from offsider.web.charts.heat import heat
from offsider.web.charts.lines import Line, Zone, lines, live

__all__ = [
    "Columns",
    "Line",
    "Mark",
    "Series",
    "Zone",
    "bars",
    "heat",
    "history",
    "lines",
    "live",
    "share",
    "sparkline",
    "swatch",
]
