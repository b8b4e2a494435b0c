"""The two charts of the dashboard."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from offsider.web.charts.axis import Columns
from offsider.web.charts.bars import Series, bars
from offsider.web.charts.figure import Translate
from offsider.web.charts.lines import Line, lines


def live(t: Translate, columns: Columns, processed: Sequence[float], failed: Sequence[float]) -> Markup:
    """Draw the runs in each column of the last minutes."""
    series: list[Line] = [
        {"name": t("term.processed"), "values": processed},
        {"name": t("term.failed"), "values": failed},
    ]
    return lines(t, series, columns, title=t("chart.runs_per_minute"), whole=True, running=True)


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
    series: list[Series] = [
        {"name": t("term.succeeded"), "values": succeeded},
        {"name": t("term.failed"), "values": failed},
    ]
    title = t("chart.runs_per_day")
    return bars(t, series, [day[5:] for day in days], title=title, caption=title, axis=t("chart.day"))
