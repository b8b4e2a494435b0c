"""How much there is of everything, told again and again by one process at a time."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from secrets import token_hex
from typing import TYPE_CHECKING

from offsider.core.errors import RedisUnavailable
from offsider.inspector.stats import Stats
from offsider.storage.turns import hold_turn
from offsider.wiring.service import Loop

if TYPE_CHECKING:
    from offsider.integrations.statsd.client import StatsdClient
    from offsider.wiring.config import Config

_TURN = "history"
#: So many looks that never came end the turn of the one who held it.
_MISSED_LOOKS = 3


class History:
    """Sends gauges: ``processed``, ``failures``, ``enqueued``, ``retries``, ``dead``, ``scheduled``, ``busy``, each
    queue's ``queue.size`` and ``queue.latency`` (seconds, tag ``queue:``), and ``leader`` (1, tag ``process:``).

    Args:
        config: whose server is looked at.
        client: where they go.
        seconds: between two looks.
        more: called at the end of each look.
    """

    def __init__(
        self, config: Config, client: StatsdClient, seconds: float, more: Callable[[StatsdClient, Stats], object] | None
    ) -> None:
        self._config = config
        self._client = client
        self._seconds = seconds
        self._more = more
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{token_hex(6)}"

    def service(self) -> Loop:
        """The thread that looks."""
        return Loop("offsider-history", self.look, on_error=self._config.handle_error)

    def look(self) -> float:
        """Send everything, if it is this process's turn; answers the seconds until the next look."""
        # Of a server that does not answer the worker tells by itself.
        with suppress(RedisUnavailable):
            if hold_turn(self._config.shared_redis(), _TURN, self._holder, _MISSED_LOOKS * self._seconds):
                self._send(Stats.read(self._config))
        return self._seconds

    def _send(self, stats: Stats) -> None:
        send = self._client.gauge
        send("processed", stats.processed)
        send("failures", stats.failed)
        send("enqueued", stats.enqueued)
        send("retries", stats.retries)
        send("dead", stats.dead)
        send("scheduled", stats.scheduled)
        send("busy", stats.busy)
        for queue in stats.queue_summaries:
            tags = [f"queue:{queue.name}"]
            send("queue.size", queue.size, tags=tags)
            send("queue.latency", queue.latency_seconds, tags=tags)
        send("leader", 1, tags=[f"process:{self._holder}"])
        if self._more is not None:
            self._more(self._client, stats)
