"""Which server sees to a tick: noted on ``main``, since only one server can be asked by all.

A job goes to one server, and its ticks are claimed there. But while a deploy changes where it goes, old programs see
to it on one server and new ones on another. So with several servers each asks on ``main`` before it claims; and a
server that a job has come to learns there up to when its ticks were dealt with.

=========================================  ======  ========================================  ==================
key                                        type    written by                                expires
=========================================  ======  ========================================  ==================
``offsider:periodic:homes``                hash    ticks, with several servers               never
=========================================  ======  ========================================  ==================
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from offsider.storage.scripts import Script
from offsider.wiring.routing import MAIN

if TYPE_CHECKING:
    from offsider.storage.redis import Redis
    from offsider.wiring.config import Config

HOME = Script("home", files("offsider.ext.periodic.lua"))


class Homes:
    """The notes, as one server sees them.

    Args:
        redis: the pool to ``main``.
        server: the name of the server that asks.
    """

    def __init__(self, redis: Redis, server: str) -> None:
        self._redis = redis
        self._server = server
        self._key = f"{redis.keys.prefix}offsider:periodic:homes"

    @classmethod
    def of(cls, config: Config) -> Homes | None:
        """Those of a configuration; None when there is only one server."""
        return cls(config.redis_of(MAIN), config.server) if len(config.servers) > 1 else None

    def is_here(self, name: str, tick: int) -> bool:
        """Whether this server sees to the tick; who asks first decides."""
        return bool(self._redis.run(HOME, [self._key], [name, tick, self._server]))

    def elsewhere(self) -> dict[str, int]:
        """Name -> the latest tick, epoch seconds, of the jobs that another server has seen to last."""
        stored: list[bytes] = self._redis.call("HGETALL", self._key)
        found: dict[str, int] = {}
        for name, raw in zip(stored[::2], stored[1::2], strict=True):
            tick, _, server = raw.decode("utf-8", "replace").partition(" ")
            if server != self._server and tick.isdigit():
                found[name.decode("utf-8", "replace")] = int(tick)
        return found

    def forget(self, name: str) -> None:
        """The job of this name is no more."""
        self._redis.call("HDEL", self._key, name)
