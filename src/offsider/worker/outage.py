"""One report when Redis goes away and one a minute while it stays away, one line when it is back."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

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
        self._report_at = 0.0

    def noticed(self, error: Exception) -> None:
        """Report the first failure of a row, and once a minute that it goes on."""
        now = time.monotonic()
        with self._lock:
            self._since = now if self._since is None else self._since
            due = now >= self._report_at
            if due:
                self._report_at = now + AGAIN_SECONDS
        if due:
            self._config.handle_error(error, {"context": self._where})

    def over(self) -> None:
        """It works again."""
        with self._lock:
            since, self._since, self._report_at = self._since, None, 0.0
        if since is not None:
            logger.info("%s: Redis is online, %.1f s of downtime", self._where, time.monotonic() - since)
