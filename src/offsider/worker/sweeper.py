"""Looks for dead owners and gives their jobs back. Every live process takes part, one at a time.

1. Hold the lease, or leave it to whoever has it.
2. Look once at every owner. Who was silent in three looks, over a third of a liveness life and without a
   gap, may be declared dead (the server's clock decides).
3. Fence it and give back its jobs; see `reclaim`. Whoever is fenced already needs no looks.
4. Forget it once its lists were empty in two looks a minute apart.
5. Once an hour scan for private lists that the registry does not know.

After trouble with Redis nobody is declared dead for two liveness lives: others could not beat either.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure, RedisRefused
from offsider.core.wording import counted
from offsider.storage import owners
from offsider.wiring.service import Loop
from offsider.worker.burial import Burial
from offsider.worker.outage import Outage
from offsider.worker.reclaim import reclaim

if TYPE_CHECKING:
    from offsider.storage.owners import Lists
    from offsider.storage.redis import Redis
    from offsider.wiring.config import Config
    from offsider.worker.ownership import Ownership

logger = logging.getLogger("offsider")

LOOKS_PER_LIFE = 12
LEASE_LOOKS = 3
SCAN_SECONDS = 3600.0


class Sweeper:
    """The service that finds the jobs of the dead."""

    def __init__(self, config: Config, redis: Redis, ownership: Ownership) -> None:
        self._config = config
        self._redis = redis
        self._ownership = ownership
        self._life_seconds = config.worker.liveness_seconds
        self._pause_seconds = self._life_seconds / LOOKS_PER_LIFE
        self._burial = Burial(config, redis)
        self._troubles = 0
        self._hold_until = 0.0
        self._scan_at = time.monotonic() + SCAN_SECONDS
        self._outage = Outage("sweeper", config)
        self._loop = Loop("offsider-sweeper", self.tick, on_error=config.handle_error)
        self.name = self._loop.name
        self.start = self._loop.start
        self.stop = self._loop.stop
        self.join = self._loop.join

    def tick(self) -> float:
        """Look once."""
        try:
            self._sweep()
        except RedisFailure as error:
            self._outage.noticed(error)
        else:
            self._outage.over()
        self._mind_trouble()
        return self._pause_seconds

    def _sweep(self) -> None:
        lease_ms = int(self._pause_seconds * LEASE_LOOKS * 1000)
        if not owners.hold_lease(self._redis, self._ownership.identity, lease_ms):
            return
        if time.monotonic() >= self._scan_at:
            self._scan()
        others = [lists for lists in owners.registered(self._redis) if lists.identity != self._ownership.identity]
        if not others:
            return
        dead = set(owners.look(self._redis, [lists.identity for lists in others], int(self._life_seconds * 1000)))
        self._mind_trouble()
        if time.monotonic() < self._hold_until:
            return
        for lists in others:
            if lists.identity in dead:
                self._reclaim(lists)

    def _reclaim(self, lists: Lists) -> None:
        try:
            reclaimed = reclaim(
                self._redis,
                lists,
                max_strikes=self._config.worker.max_strikes,
                announce=partial(self._config.events.emit, "job_reclaimed"),
                bury=self._burial.bury,
            )
            if reclaimed is not None:
                owners.forget(self._redis, lists, leaving=False)
        except RedisRefused as error:
            # One owner whose keys are of the wrong type must not keep the jobs of the others.
            self._outage.noticed(error)

    def _scan(self) -> None:
        self._scan_at = time.monotonic() + SCAN_SECONDS
        found = owners.adopt_strays(self._redis)
        if found:
            logger.warning("found %s that the registry did not know", counted(found, "private list"))

    def _mind_trouble(self) -> None:
        troubles = self._redis.troubles
        if troubles != self._troubles:
            self._troubles = troubles
            self._hold_until = time.monotonic() + 2 * self._life_seconds
