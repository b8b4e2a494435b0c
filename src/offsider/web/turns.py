"""Turns at the servers: one that hangs shall not keep the threads from the pages of the others."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from offsider.web.answers import Crowded
from offsider.wiring.config import Config

#: So long a request waits for those before it.
PATIENCE_SECONDS = 0.25


class Turns:
    """As many requests at a time for each server as its pool has connections; further ones are told to come back.

    There are threads for all servers together. A single one may have them all.
    """

    def __init__(self, servers: Mapping[str, Config]) -> None:
        sizes = {name: max(1, config.redis.client_pool_size) for name, config in servers.items()}
        self._free = {name: threading.BoundedSemaphore(size) for name, size in sizes.items()} if len(sizes) > 1 else {}

    @contextmanager
    def turn(self, server: str) -> Generator[None]:
        """A turn at a server. Raises Crowded when none is free."""
        free = self._free.get(server)
        if free is None:
            yield
            return
        if not free.acquire(timeout=PATIENCE_SECONDS):
            raise Crowded("Too many requests wait for this server. Try again soon.")
        try:
            yield
        finally:
            free.release()
