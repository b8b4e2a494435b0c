"""Charts as server-side SVG: without scripts and style attributes, accessible, and responsive."""

from offsider.web.charts.axis import Columns
from offsider.web.charts.bars import BarSeries, bars, history, share, sparkline
from offsider.web.charts.figure import Mark, swatch
from offsider.web.charts.heat import heat
from offsider.web.charts.lines import ChartLine, Zone, lines, live

__all__ = [
    "BarSeries",
    "ChartLine",
    "Columns",
    "Mark",
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
