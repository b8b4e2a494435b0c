"""The tab Home: counters, the server, and the recent number of processed jobs per second."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from offsider.cli.quantities import duration, grouped
from offsider.cli.top.table import Action, Row, Table, View, paged
from offsider.config.installation import Installation
from offsider.core.wording import counted
from offsider.inspector import ServerInfo, Stats

_SAMPLES = 120
_COLUMNS = ("COUNTER", "NOW")


class Home:
    """The counters."""

    title = "Home"
    actions: Mapping[str, Action] = {}

    def __init__(self, here: Installation) -> None:
        self._here = here
        self._rates: deque[float] = deque(maxlen=_SAMPLES)

    def read(self, view: View) -> Table:
        stats, server = Stats.read(self._here), ServerInfo.read(self._here)
        self._rates.append(stats.processed_per_second)
        facts = {
            "Processed": f"{grouped(stats.processed)}  {stats.processed_per_second:,.1f} / s",
            "Failed": grouped(stats.failed),
            "Busy": f"{counted(stats.busy, 'job')} of {counted(stats.processes, 'worker')}",
            "Enqueued": grouped(stats.enqueued),
            "Latency of default": duration(stats.default_queue_latency_seconds),
            "Scheduled": grouped(stats.scheduled),
            "Retries": grouped(stats.retries),
            "Dead": grouped(stats.dead),
            "Server": f"{server.store} {server.version}, up {server.uptime_days} days",
            "Memory": f"{(server.used_memory_bytes or 0) // 1_000_000} MB",
            "Clients": grouped(server.connected_clients or 0),
        }
        sheet = paged(_COLUMNS, [Row(name, (name, fact.strip())) for name, fact in facts.items()], view)
        return Table(sheet.columns, sheet.rows, sheet.total, samples=tuple(self._rates))
