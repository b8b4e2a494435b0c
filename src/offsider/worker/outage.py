"""One report when Redis goes away, one line when it is back, instead of one a second."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offsider.wiring.config import Config

logger = logging.getLogger("offsider")


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

    def noticed(self, error: Exception) -> None:
        """Report the first failure of a row."""
        with self._lock:
            first = self._since is None
            if first:
                self._since = time.monotonic()
        if first:
            self._config.handle_error(error, {"context": self._where})

    def over(self) -> None:
        """It works again."""
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            logger.info("%s: Redis is online, %.1f s of downtime", self._where, time.monotonic() - since)
