"""The tab Metrics: which jobs took the time of the last hour."""

from __future__ import annotations

from collections.abc import Mapping

from offsider.cli.plain import plain
from offsider.cli.quantities import duration, grouped
from offsider.cli.top.sheet import Action, Row, Sheet, View, paged
from offsider.inspector import JobMetrics
from offsider.wiring.config import Config

_COLUMNS = ("JOB", "RUNS", "FAILED", "TOTAL", "AVERAGE")


class Metrics:
    """Job classes by the time that their runs took together."""

    title = "Metrics"
    actions: Mapping[str, Action] = {}

    def __init__(self, config: Config) -> None:
        self._config = config

    def read(self, view: View) -> Sheet:
        jobs = sorted(JobMetrics.top("1h", config=self._config).jobs, key=lambda job: job.total_seconds, reverse=True)
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
