"""Sizes of queues and sets, sent at an interval by one process at a time."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from secrets import token_hex
from typing import TYPE_CHECKING

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import RedisUnavailable
from offsider.inspector.stats import Stats
from offsider.runtime.service import Loop
from offsider.storage.leases import hold_lease

if TYPE_CHECKING:
    from offsider.integrations.statsd.client import StatsdClient

_LEASE = "history"
#: After this many missed intervals another process takes over the lease.
_MISSED_INTERVALS = 3


class History:
    """Sends gauges: ``processed``, ``failures``, ``enqueued``, ``retries``, ``dead``, ``scheduled``, ``busy``, each
    queue's ``queue.size`` and ``queue.latency`` (seconds, tag ``queue:``), and ``leader`` (1, tag ``process:``).

    Args:
        config: the configuration whose server is read.
        client: client that sends the gauges.
        seconds: interval.
        more: called at the end of each interval.
    """

    def __init__(
        self, config: Config, client: StatsdClient, seconds: float, more: Callable[[StatsdClient, Stats], object] | None
    ) -> None:
        self._here = Installation.of(config)
        self._client = client
        self._seconds = seconds
        self._more = more
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{token_hex(6)}"

    def service(self) -> Loop:
        """Return the thread that sends the gauges."""
        return Loop("offsider-history", self.send, on_error=self._here.config.handle_error)

    def send(self) -> float:
        """Send the gauges if this process holds the lease, and return the seconds until the next call."""
        # The worker itself logs that the server does not respond.
        with suppress(RedisUnavailable):
            if hold_lease(self._here.redis, _LEASE, self._holder, _MISSED_INTERVALS * self._seconds):
                self._send(Stats.read(self._here))
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
