"""Charts as server-side SVG: without scripts and style attributes, accessible, and responsive."""

from offsider.web.charts.bars import chart, spark
from offsider.web.charts.heat import heat

__all__ = ["chart", "heat", "spark"]
