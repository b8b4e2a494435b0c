"""The tab Home: counters, the server, and how many jobs a second were processed lately."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from offsider.cli.quantities import duration, grouped
from offsider.cli.top.sheet import Action, Row, Sheet, View, paged
from offsider.core.wording import counted
from offsider.inspector import ServerInfo, Stats
from offsider.wiring.config import Config

_SAMPLES = 120
_COLUMNS = ("COUNTER", "NOW")


class Home:
    """The counters."""

    title = "Home"
    actions: Mapping[str, Action] = {}

    def __init__(self, config: Config) -> None:
        self._config = config
        self._last: tuple[float, int] | None = None
        self._rates: deque[float] = deque(maxlen=_SAMPLES)

    def read(self, view: View) -> Sheet:
        stats, server = Stats.read(self._config), ServerInfo.read(self._config)
        self._note_rate(stats.processed)
        rate = f"{self._rates[-1]:,.1f} / s" if self._rates else ""
        facts = {
            "Processed": f"{grouped(stats.processed)}  {rate}",
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
        return Sheet(sheet.columns, sheet.rows, sheet.total, samples=tuple(self._rates))

    def _note_rate(self, processed: int) -> None:
        """The counters move at each heartbeat only, so a sample is what came since they last moved."""
        now = self._config.clock.monotonic()
        if self._last is None:
            self._last = (now, processed)
        elif processed != self._last[1]:
            since, before = self._last
            self._rates.append(max(0, processed - before) / max(0.001, now - since))
            self._last = (now, processed)
        elif now - self._last[0] > 2 * _HEARTBEAT_SECONDS:
            self._rates.append(0.0)
            self._last = (now, processed)


_HEARTBEAT_SECONDS = 10.0
