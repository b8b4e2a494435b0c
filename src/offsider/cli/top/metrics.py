"""The tab Metrics: job classes by total run time in the last hour."""

from __future__ import annotations

from collections.abc import Mapping

from offsider.cli.quantities import duration, grouped
from offsider.cli.sanitize import plain
from offsider.cli.top.table import Action, Row, Table, View, paged
from offsider.config.installation import Installation
from offsider.inspector import JobMetrics

_COLUMNS = ("JOB", "RUNS", "FAILED", "TOTAL", "AVERAGE")


class Metrics:
    """Job classes, sorted by total run time."""

    title = "Metrics"
    actions: Mapping[str, Action] = {}

    def __init__(self, here: Installation) -> None:
        self._here = here

    def read(self, view: View) -> Table:
        jobs = sorted(JobMetrics.top("1h", config=self._here).jobs, key=lambda job: job.total_seconds, reverse=True)
        rows = [
            Row(
                job.name,
                (
                    plain(job.name, 50),
                    grouped(job.processed),
                    grouped(job.failed),
                    duration(job.total_seconds),
                    f"{job.average_ms:,.0f} ms",
                ),
            )
            for job in jobs
        ]
        return paged(_COLUMNS, rows, view)
