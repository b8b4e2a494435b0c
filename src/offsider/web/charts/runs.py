"""The two charts of the dashboard."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from offsider.web.charts.axis import Columns
from offsider.web.charts.bars import Series, bars
from offsider.web.charts.figure import Translate
from offsider.web.charts.lines import Line, lines


def live(t: Translate, columns: Columns, processed: Sequence[float], failed: Sequence[float]) -> Markup:
    """What the workers do now: runs in each column of the last minutes."""
    series: list[Line] = [{"name": t("Processed"), "values": processed}, {"name": t("Failed"), "values": failed}]
    return lines(t, series, columns, title=t("Runs per minute"), whole=True, running=True)


def history(t: Translate, days: Sequence[str], processed: Sequence[int], failed: Sequence[int]) -> Markup:
    """Runs per day, the failed ones on top of those that succeeded.

    Args:
        t: the page's translations.
        days: ``YYYY-MM-DD``, the oldest first.
        processed: all runs of each day, as Sidekiq counts them: those that failed are among them.
        failed: of each day.
    """
    # A day's two counters are not written at one moment, so that for a while more may have failed than were run.
    succeeded = [max(0, run - bad) for run, bad in zip(processed, failed, strict=True)]
    series: list[Series] = [{"name": t("Succeeded"), "values": succeeded}, {"name": t("Failed"), "values": failed}]
    title = t("Runs per day")
    return bars(t, series, [day[5:] for day in days], title=title, caption=title, axis=t("Day (UTC)"))
