"""Work that one worker at a time does for all, such as samples and alerts."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure
from offsider.runtime.outage import Outage
from offsider.runtime.service import Loop
from offsider.storage import leases
from offsider.worker.alive.ownership import new_identity

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.storage.redis import Redis

LEASE_SECONDS = 30.0


class LeasedLoop(Loop):
    """A service that calls `work` every few seconds while this worker holds the lease; its end releases the lease.

    Args:
        name: name of the lease.
        what: the work, in reports of an outage.
        seconds: interval, of which the lease lasts several.
    """

    def __init__(self, name: str, what: str, seconds: float, config: Config, redis: Redis) -> None:
        self._config = config
        self._redis = redis
        self._lease = name
        self._holder = new_identity()
        self._seconds = seconds
        self._outage = Outage(what, config)
        super().__init__(f"offsider-{name}", self.tick, config.handle_error, finish=self._release)

    def work(self) -> None:
        """Do the work once."""
        raise NotImplementedError

    def tick(self) -> float:
        """Work if this worker holds the lease, and return the seconds until the next call."""
        with self._outage:
            if leases.hold_lease(self._redis, self._lease, self._holder, LEASE_SECONDS):
                self.work()
        return self._seconds

    def _release(self) -> None:
        with suppress(RedisFailure):  # it expires by itself
            leases.release(self._redis, self._redis.keys.lease(self._lease), self._holder)
