"""Reports an outage of Redis once, then once a minute, and logs one line at the recovery."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from offsider.core.errors import QueueFull, RedisRefused
from offsider.storage.redis_errors import REROUTE

if TYPE_CHECKING:
    from offsider.config.config import Config

logger = logging.getLogger("offsider")

REPORT_SECONDS = 60.0
#: Pause after a failure before the next attempt.
RETRY_SECONDS = 1.0


class Outage:
    """Limits the reports of one component's failures.

    Args:
        where: name of the component, for the report.
        config: its error handlers receive the reports.
    """

    def __init__(self, where: str, config: Config) -> None:
        self._where = where
        self._config = config
        self._lock = threading.Lock()
        self._since: float | None = None
        self._report_at: dict[str, float] = {}

    def noticed(self, error: Exception) -> None:
        """Report the first of consecutive failures, then one per minute.

        A refusal (a key of the wrong type, a missing permission) is not an outage: other commands still succeed.
        """
        now = time.monotonic()
        kind = _kind(error)
        with self._lock:
            if kind == "outage" and self._since is None:
                self._since = now
            due = now >= self._report_at.get(kind, 0.0)
            if due:
                self._report_at[kind] = now + REPORT_SECONDS
        if due:
            self._config.handle_error(error, {"context": self._where})

    def over(self) -> None:
        """Note a success; log the recovery if there was an outage."""
        with self._lock:
            since, self._since = self._since, None
            self._report_at.pop("outage", None)
        if since is not None:
            logger.info("%s: Redis is online, %.1f s of downtime", self._where, time.monotonic() - since)


def _kind(error: Exception) -> str:
    refused = isinstance(error, RedisRefused) and not isinstance(error, QueueFull) and error.code not in REROUTE
    return "refusal" if refused else "outage"
