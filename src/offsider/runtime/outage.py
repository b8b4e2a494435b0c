"""Reports an outage of Redis once, then once a minute, and logs one line at the recovery.

A block ``with outage:`` does this for its commands: a `RedisFailure` ends the block and is not raised.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from offsider.core.errors import QueueFull, RedisFailure, RedisRefused
from offsider.storage.redis_errors import REROUTE

if TYPE_CHECKING:
    from types import TracebackType

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

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _at: TracebackType | None
    ) -> bool:
        if isinstance(error, RedisFailure):
            self.noticed(error)
            return True
        if error is None:
            self.over()
        return False

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

    def over(self) -> float:
        """Note a success; log the recovery if there was an outage, and return its seconds, else 0."""
        with self._lock:
            since, self._since = self._since, None
            self._report_at.pop("outage", None)
        if since is None:
            return 0.0
        downtime_seconds = time.monotonic() - since
        logger.info("%s: Redis is online, %.1f s of downtime", self._where, downtime_seconds)
        return downtime_seconds


def _kind(error: Exception) -> str:
    refused = isinstance(error, RedisRefused) and not isinstance(error, QueueFull) and error.code not in REROUTE
    return "refusal" if refused else "outage"
