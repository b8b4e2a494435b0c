"""Limits for requests to each server, so that a hanging server leaves threads for the pages of the others."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from offsider.config.installation import Installation
from offsider.web.results import Crowded

#: Maximum wait for a free slot.
TIMEOUT_SECONDS = 0.25


class Bulkhead:
    """Up to as many concurrent requests per server as its pool has connections; more are refused with 503.

    All servers share the threads. With a single server there is no limit.
    """

    def __init__(self, servers: Mapping[str, Installation]) -> None:
        sizes = {name: max(1, here.settings.client_pool_size) for name, here in servers.items()}
        self._free = {name: threading.BoundedSemaphore(size) for name, size in sizes.items()} if len(sizes) > 1 else {}

    @contextmanager
    def slot(self, server: str) -> Generator[None]:
        """Occupy a slot of a server. Raises Crowded if none is free in time."""
        free = self._free.get(server)
        if free is None:
            yield
            return
        if not free.acquire(timeout=TIMEOUT_SECONDS):
            raise Crowded("error.crowded")
        try:
            yield
        finally:
            free.release()
