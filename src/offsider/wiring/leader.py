"""The election of a leader, for what one process of all shall do: as Sidekiq Enterprise has it, and with its key.

1. Whoever asks first leads, for 20 s, and asks again every 15 s. Its handlers of ``leader`` are called, in a thread of
   their own.
2. The others ask again when that time may be over, once a minute at least.
3. At its stop the leader steps down. When it dies, the next one leads within 21 s.

No fence stands around a leader: one that is suspended, or cut off, may go on for a moment after another has taken over.
It stops to believe in itself before that, by its own clock; what it has begun it does not undo. For what has to happen
once, claim it in Redis, as periodic jobs do.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable

from offsider.core.errors import RedisFailure
from offsider.storage import leader
from offsider.storage.redis import Redis
from offsider.wiring.service import Loop, OnError

logger = logging.getLogger("offsider")

LIFE_SECONDS = 20.0
RENEW_SECONDS = 15.0
FOLLOW_SECONDS = 60.0
#: After a failure of the server.
AGAIN_SECONDS = 2.0
#: Over which the others are spread, so that not all ask at once.
SPREAD_SECONDS = 1.0


class Leadership:
    """Whether this process leads, by its own clock."""

    def __init__(self) -> None:
        self._until = 0.0

    def __bool__(self) -> bool:
        return time.monotonic() < self._until

    def hold(self, until: float) -> None:
        """It leads until then, in monotonic seconds; 0 ends it."""
        self._until = until


class Leader:
    """The service that stands for election.

    Args:
        redis: where the leader's key is.
        identity: of the process, which may change.
        leadership: told how it went.
        elected: called when the process has become the leader.
        on_error: gets an error of that.
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
        self._ending = threading.Event()
        self._loop = Loop("offsider-leader", self._turn, on_error=on_error)
        self.name = self._loop.name
        self.start = self._loop.start
        self.join = self._loop.join

    def stop(self) -> None:
        self._ending.set()
        self._loop.wake()

    def _turn(self) -> float | None:
        if not self._ending.is_set():
            return self.tick()
        self._step_down()
        return None

    def tick(self) -> float:
        """Ask once; answers the seconds until it asks again."""
        asked_at = time.monotonic()
        try:
            left_seconds = leader.lead(self._redis, self._identity(), LIFE_SECONDS)
        except RedisFailure as error:
            logger.debug("the election of a leader waits for Redis: %s", error)
            return AGAIN_SECONDS
        if left_seconds:
            self._leadership.hold(0.0)
            return min(FOLLOW_SECONDS, left_seconds + random.uniform(0, SPREAD_SECONDS))
        led = bool(self._leadership)
        self._leadership.hold(asked_at + LIFE_SECONDS)
        if not led:
            logger.info("this process leads")
            # Beside this one, which has to ask again in time.
            threading.Thread(target=self._elected, name="offsider-elected", daemon=True).start()
        return RENEW_SECONDS

    def _step_down(self) -> None:
        led = bool(self._leadership)
        self._leadership.hold(0.0)
        try:
            if led:
                leader.step_down(self._redis, self._identity())
        except RedisFailure as error:
            logger.debug("the lead ends by itself: %s", error)
