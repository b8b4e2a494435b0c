"""The tab Queues: sizes, latencies, pauses."""

from __future__ import annotations

from offsider.cli.plain import plain
from offsider.cli.quantities import duration, grouped
from offsider.cli.queues import is_served, served_queues
from offsider.cli.top.sheet import Action, Row, Sheet, View, paged
from offsider.inspector import Queue, Stats
from offsider.wiring.config import Config

_COLUMNS = ("QUEUE", "SIZE", "LATENCY", "STATE")


class Queues:
    """Every queue, by name."""

    title = "Queues"

    def __init__(self, config: Config) -> None:
        self._config = config
        self.actions = {
            "p": Action("Pause", "paused or unpaused", asks=False, act=self._turn),
            "D": Action("Clear", "cleared", asks=True, act=self._clear),
        }

    def read(self, view: View) -> Sheet:
        served = served_queues(self._config)
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
            for summary in sorted(Stats.read(self._config).queue_summaries, key=lambda summary: summary.name)
        ]
        return paged(_COLUMNS, rows, view)

    def _turn(self, name: str) -> bool:
        queue = Queue(name, self._config)
        if queue.paused:
            queue.unpause()
        else:
            queue.pause()
        return True

    def _clear(self, name: str) -> bool:
        Queue(name, self._config).clear()
        return True
