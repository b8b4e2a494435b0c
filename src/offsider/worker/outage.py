"""One report when Redis goes away and one a minute while it stays away, one line when it is back."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from offsider.core.errors import QueueFull, RedisRefused
from offsider.storage.failures import REROUTE

if TYPE_CHECKING:
    from offsider.wiring.config import Config

logger = logging.getLogger("offsider")

AGAIN_SECONDS = 60.0


class Outage:
    """Remembers since when something fails.

    Args:
        where: who noticed, for the report.
        config: whose error handlers are told.
    """

    def __init__(self, where: str, config: Config) -> None:
        self._where = where
        self._config = config
        self._lock = threading.Lock()
        self._since: float | None = None
        self._report_at: dict[str, float] = {}

    def noticed(self, error: Exception) -> None:
        """Report the first failure of a row, and once a minute that it goes on.

        A refusal (a key of the wrong type, a missing right) is no outage: others get through meanwhile.
        """
        now = time.monotonic()
        kind = _kind(error)
        with self._lock:
            if kind == "outage" and self._since is None:
                self._since = now
            due = now >= self._report_at.get(kind, 0.0)
            if due:
                self._report_at[kind] = now + AGAIN_SECONDS
        if due:
            self._config.handle_error(error, {"context": self._where})

    def over(self) -> None:
        """It works again."""
        with self._lock:
            since, self._since = self._since, None
            self._report_at.pop("outage", None)
        if since is not None:
            logger.info("%s: Redis is online, %.1f s of downtime", self._where, time.monotonic() - since)


def _kind(error: Exception) -> str:
    refused = isinstance(error, RedisRefused) and not isinstance(error, QueueFull) and error.code not in REROUTE
    return "refusal" if refused else "outage"
