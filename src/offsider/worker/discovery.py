"""Finds new queues for capsules that serve all of them (``-q '*'``).

1. Search the keys, for 50 ms, for queues that no client has registered, and register them.
2. Read the set of queues.

The owner registers its private list for a queue before it claims anything from that queue.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure, RedisRefused
from offsider.runtime.service import LoopService
from offsider.storage import queues
from offsider.worker.outage import Outage

if TYPE_CHECKING:
    from offsider.config.capsule import Capsule
    from offsider.config.config import Config
    from offsider.storage.redis import Redis
    from offsider.worker.alive.ownership import Ownership

PAUSE_SECONDS = 5.0
#: Part of each round that searches the keys.
SEARCH_SECONDS = 0.05


class Discovery(LoopService):
    """The service that finds queues.

    Args:
        capsules: capsules that serve every queue.
        wakes: capsule name -> callable that makes its fetcher check new queues.
    """

    def __init__(
        self,
        config: Config,
        redis: Redis,
        ownership: Ownership,
        capsules: Sequence[Capsule],
        wakes: Mapping[str, Callable[[], None]],
    ) -> None:
        self._redis = redis
        self._ownership = ownership
        self._capsules = capsules
        self._wakes = wakes
        self._outage = Outage("discovery of queues", config)
        self._cursor: bytes | None = b"0"
        super().__init__("offsider-discovery", self.tick, config.handle_error)

    def tick(self) -> float:
        """Find queues once."""
        try:
            self._register_others()
            names = queues.names(self._redis)
            for capsule in self._capsules:
                self._ownership.serve(capsule.name, names)
                before = capsule.queues
                capsule.discover(names)
                if capsule.queues != before and capsule.name in self._wakes:
                    self._wakes[capsule.name]()
        except RedisFailure as error:
            self._outage.noticed(error)
        else:
            self._outage.over()
        return PAUSE_SECONDS

    def _register_others(self) -> None:
        if self._cursor is None:
            return
        deadline = time.monotonic() + SEARCH_SECONDS
        while True:
            try:
                self._cursor, found = queues.find_unregistered(self._redis, self._cursor)
            except RedisRefused:  # this server forbids SCAN
                self._cursor = None
                return
            with suppress(RedisRefused):  # it is full
                queues.register(self._redis, found)
            if self._cursor == b"0" or time.monotonic() > deadline:
                return
