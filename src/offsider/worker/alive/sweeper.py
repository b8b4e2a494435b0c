"""Finds dead owners and requeues their jobs. Every live process can do it, one at a time.

1. Acquire the lease, or leave the work to the process that has it. A process that is the only owner needs no lease.
2. Check every other owner once. An owner that was silent in three checks, over a third of a liveness period and
   without a gap, may be declared dead (by the server's clock).
3. Fence it and requeue its jobs; see `reclaim`. An owner that is already fenced needs no checks.
4. Remove it from the registry once its lists were empty in two checks a minute apart.
5. Once an hour scan for private lists that are missing from the registry.
6. Emit ``job_reclaimed`` for jobs that parents have requeued, if the application listens: a parent emits no events.

After a Redis failure no owner is declared dead for two liveness periods: other processes could not beat either.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure, RedisRefused
from offsider.core.wording import counted
from offsider.runtime.events import JobReclaimed
from offsider.runtime.service import LoopService
from offsider.storage import owners, rescued
from offsider.worker.alive.poison import PoisonPills
from offsider.worker.alive.reclaim import reclaim
from offsider.worker.outage import Outage

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.storage.owners import Lists
    from offsider.storage.redis import Redis
    from offsider.worker.alive.ownership import Ownership

logger = logging.getLogger("offsider")

LOOKS_PER_LIFE = 12
LEASE_LOOKS = 3
#: The only owner counts the owners after this many looks: a new one cannot be dead before the end of its first life.
LONELY_LOOKS = 4
SCAN_SECONDS = 3600.0


class Sweeper(LoopService):
    """The service that finds and requeues jobs of dead owners."""

    def __init__(self, config: Config, redis: Redis, ownership: Ownership) -> None:
        self._config = config
        self._redis = redis
        self._ownership = ownership
        self._life_seconds = config.worker.liveness_seconds
        self._pause_seconds = self._life_seconds / LOOKS_PER_LIFE
        self._poison_pills = PoisonPills(config, redis)
        self._troubles = 0
        self._hold_until = 0.0
        self._scan_at = time.monotonic() + SCAN_SECONDS
        self._outage = Outage("sweeper", config)
        super().__init__("offsider-sweeper", self.tick, config.handle_error)

    def tick(self) -> float:
        """Sweep once."""
        alone = False
        try:
            alone = self._is_alone()
            if not alone:
                self._sweep()
        except RedisFailure as error:
            self._outage.noticed(error)
        else:
            self._outage.over()
        self._mind_trouble()
        return self._pause_seconds * (LONELY_LOOKS if alone else 1)

    def _is_alone(self) -> bool:
        """Return whether nothing is to be done, because no other owner is registered."""
        announces = self._config.events.listened("job_reclaimed")
        return not announces and time.monotonic() < self._scan_at and owners.count(self._redis) < 2

    def _sweep(self) -> None:
        if self._config.events.listened("job_reclaimed"):
            for job in rescued.take(self._redis):
                self._config.events.emit("job_reclaimed", JobReclaimed(*job))
        lease_ms = int(self._pause_seconds * LEASE_LOOKS * 1000)
        if not owners.hold_lease(self._redis, self._ownership.identity, lease_ms):
            return
        if time.monotonic() >= self._scan_at:
            self._scan()
        others = [lists for lists in owners.registered(self._redis) if lists.identity != self._ownership.identity]
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
                bury=self._poison_pills.bury,
            )
            if reclaimed is not None:
                owners.forget(self._redis, lists, leaving=False)
        except RedisRefused as error:
            # One owner whose keys have the wrong type must not block the jobs of the others.
            self._outage.noticed(error)

    def _scan(self) -> None:
        self._scan_at = time.monotonic() + SCAN_SECONDS
        try:
            found = owners.adopt_strays(self._redis)
        except RedisRefused as error:  # some servers have no SCAN
            logger.info("not looking for private lists without an owner: %s", error)
            return
        if found:
            logger.warning("found and registered %s without an owner", counted(found, "private list"))

    def _mind_trouble(self) -> None:
        troubles = self._redis.troubles
        if troubles != self._troubles:
            self._troubles = troubles
            self._hold_until = time.monotonic() + 2 * self._life_seconds
