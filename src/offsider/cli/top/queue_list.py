"""The tab Queues: size, latency and state of each queue."""

from __future__ import annotations

from offsider.cli.quantities import duration, grouped
from offsider.cli.queues import is_served, served_queues
from offsider.cli.sanitize import plain
from offsider.cli.top.table import Action, Row, Table, View, paged
from offsider.config.installation import Installation
from offsider.inspector import Queue, Stats

_COLUMNS = ("QUEUE", "SIZE", "LATENCY", "STATE")


class Queues:
    """Every queue, by name."""

    title = "Queues"

    def __init__(self, here: Installation) -> None:
        self._here = here
        self.actions = {
            "p": Action("Pause", "{} paused or unpaused", asks=False, act=self._toggle),
            "D": Action("Clear", "{} cleared", asks=True, act=self._clear),
        }

    def read(self, view: View) -> Table:
        served = served_queues(self._here)
        rows = [
            Row(
                summary.name,
                (
                    plain(summary.name, 40),
                    grouped(summary.size),
                    duration(summary.latency_seconds),
                    "paused" if summary.paused else "" if is_served(summary.name, served) else "no worker",
                ),
                summary.name,
            )
            for summary in sorted(Stats.read(self._here).queue_summaries, key=lambda summary: summary.name)
        ]
        return paged(_COLUMNS, rows, view)

    def _toggle(self, name: str) -> bool:
        queue = Queue(name, self._here)
        if queue.paused:
            queue.unpause()
        else:
            queue.pause()
        return True

    def _clear(self, name: str) -> bool:
        Queue(name, self._here).clear()
        return True
