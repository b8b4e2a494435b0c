"""Assign each tick to one server, with a record on ``main``, which all servers can read.

A job goes to one server, and its ticks are claimed there. While a deploy moves it to another server, old processes
claim its ticks on one server and new processes on the other. So with several servers, each one asks ``main`` before
it claims a tick. A server that gets a job learns there which ticks were already handled.

=========================================  ======  ========================================  ==================
key                                        type    written by                                expires
=========================================  ======  ========================================  ==================
``offsider:periodic:homes``                hash    ticks, with several servers               never
=========================================  ======  ========================================  ==================
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from offsider.config.installation import Installation
from offsider.config.routing import MAIN
from offsider.storage.scripts import Script

if TYPE_CHECKING:
    from offsider.storage.redis import Redis

ASSIGN = Script("assign", files("offsider.ext.periodic.lua"))


class Servers:
    """The assignment of ticks, seen from one server.

    Args:
        redis: the pool of ``main``.
        server: the name of the asking server.
    """

    def __init__(self, redis: Redis, server: str) -> None:
        self._redis = redis
        self._server = server
        self._key = f"{redis.keys.prefix}offsider:periodic:homes"

    @classmethod
    def of(cls, here: Installation) -> Servers | None:
        """Return the assignment for a configuration; None if there is only one server."""
        return cls(here.for_server(MAIN).redis, here.server) if len(here.config.servers) > 1 else None

    def is_assigned(self, name: str, tick: int) -> bool:
        """Whether this server handles the tick; the first server that asks gets it."""
        return bool(self._redis.run(ASSIGN, [self._key], [name, tick, self._server]))

    def elsewhere(self) -> dict[str, int]:
        """Return the latest tick, in epoch seconds, of each job whose last tick another server handled."""
        stored: list[bytes] = self._redis.call("HGETALL", self._key)
        found: dict[str, int] = {}
        for name, raw in zip(stored[::2], stored[1::2], strict=True):
            tick, _, server = raw.decode("utf-8", "replace").partition(" ")
            if server != self._server and tick.isdigit():
                found[name.decode("utf-8", "replace")] = int(tick)
        return found

    def forget(self, name: str) -> None:
        """Delete the record of a removed job."""
        self._redis.call("HDEL", self._key, name)
