"""Leader election, for work that only one process should do. It works as in Sidekiq Enterprise and uses the same key.

1. The first process that acquires the key leads for 20 s, and renews the key every 15 s. When a process becomes the
   leader, it calls the handlers of the event ``leader`` in a separate thread.
2. The other processes try again when the key may have expired, and at least once a minute.
3. A leader that stops releases the key. When a leader dies, the next one leads within 21 s.

The lock has no fencing token: a process that was suspended or disconnected may still do a leader's work for a moment
after another process has become the leader. By its own clock, a leader stops leading before its key expires, but work
that it has begun continues. Work that must happen exactly once needs a claim in Redis, as periodic jobs have.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable

from offsider.core.errors import RedisFailure
from offsider.runtime.service import Loop, OnError
from offsider.storage import leases
from offsider.storage.redis import Redis

logger = logging.getLogger("offsider")

LIFE_SECONDS = 20.0
RENEW_SECONDS = 15.0
FOLLOW_SECONDS = 60.0
#: Delay of the next attempt after the server failed.
RETRY_SECONDS = 2.0
#: The other processes try at random times within this period, so that not all try at once.
SPREAD_SECONDS = 1.0


class Leadership:
    """Truthy while this process is the leader now, by its own clock."""

    def __init__(self) -> None:
        self._until = 0.0

    def __bool__(self) -> bool:
        return time.monotonic() < self._until

    def hold(self, until: float) -> None:
        """Lead until this time, in monotonic seconds; 0 stops leading now."""
        self._until = until


class Leader(Loop):
    """The service that takes part in the election.

    Args:
        redis: the server that stores the leader's key.
        identity: returns the identity of the process, which may change.
        leadership: is updated after each attempt.
        elected: called when the process has become the leader.
        on_error: called with the errors of this service.
    """

    def __init__(
        self,
        redis: Redis,
        identity: Callable[[], str],
        leadership: Leadership,
        elected: Callable[[], None],
        *,
        on_error: OnError,
    ) -> None:
        self._redis = redis
        self._identity = identity
        self._leadership = leadership
        self._elected = elected
        super().__init__("offsider-leader", self.tick, on_error, finish=self._step_down)

    def tick(self) -> float:
        """Try once to become or stay the leader; return the seconds until the next attempt."""
        asked_at = time.monotonic()
        try:
            left_seconds = leases.acquire(self._redis, self._redis.keys.leader, self._identity(), LIFE_SECONDS)
        except RedisFailure as error:
            logger.debug("cannot elect a leader, trying again: %s", error)
            return RETRY_SECONDS
        if left_seconds:
            self._leadership.hold(0.0)
            return min(FOLLOW_SECONDS, left_seconds + random.uniform(0, SPREAD_SECONDS))
        led = bool(self._leadership)
        self._leadership.hold(asked_at + LIFE_SECONDS)
        if not led:
            logger.info("this process is the leader now")
            # In a separate thread, because this one has to renew the key in time.
            threading.Thread(target=self._elected, name="offsider-elected", daemon=True).start()
        return RENEW_SECONDS

    def _step_down(self) -> None:
        led = bool(self._leadership)
        self._leadership.hold(0.0)
        try:
            if led:
                leases.release(self._redis, self._redis.keys.leader, self._identity())
        except RedisFailure as error:
            logger.debug("cannot release the lock of the leader, which expires by itself: %s", error)
