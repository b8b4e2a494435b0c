"""How a service talks to the server and sleeps: watched by the server where it may be, else by looking again.

1. While a connection tracks keys, looks go over it, and `sleep` ends as soon as what was looked at changes.
2. Who is refused that looks over the pool, and has to look often; a minute later it asks again.
3. A connection that breaks is done without for a few seconds: what keeps cutting it must not keep us busy.
4. `end` ends the sleep, from any thread, and every later one; `close` gives the connection up.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from offsider.core.errors import RedisRefused, RedisUnavailable
from offsider.storage.redis import Redis
from offsider.storage.scripts import Command
from offsider.storage.tracking import Tracking
from offsider.wiring.wake_pipe import WakePipe

logger = logging.getLogger("offsider")

#: Between two looks that were caused by changes: a thousand jobs scheduled at once shall not cause a thousand looks.
REREAD_SECONDS = 0.005
REFUSED_SECONDS = 60.0
BROKEN_SECONDS = 5.0


class Lookout:
    """One for one thread; only `end` may be called by others.

    Args:
        redis: the pool that is used while nothing is tracked.
        keys: what looks read, and whose changes end a sleep.
        signal: a key that looks do not read and whose change ends a sleep as well.
        tells: what the server tells by that, for the log.
    """

    def __init__(
        self, redis: Redis, keys: Sequence[str], signal: str, *, tells: str = "when jobs are scheduled"
    ) -> None:
        self._redis = redis
        self._keys = keys
        self._signal = signal
        self._tells = tells
        self._tracking = Tracking(redis.settings)
        self._track_at = 0.0
        self._told = False
        self._looked_at = 0.0
        self._pipe = WakePipe()

    @property
    def is_told(self) -> bool:
        """Whether the server will tell of changes to what was looked at."""
        return self._tracking.is_open

    def exchange(self, commands: Sequence[Command]) -> list[Any]:
        """Run commands, the last of which looks at the keys; error replies are elements of the list.

        Raises:
            RedisUnavailable: the connection failed, ``ambiguous`` once something was sent.
            RedisRefused: the signal may not be watched.
        """
        self._looked_at = time.monotonic()
        if self._may_track():
            if not self._tracking.watches(self._signal):
                self._tracking.watch(self._signal)
            return self._tracking.read(self._keys, commands)
        return self._redis.pipeline(commands, raise_errors=False)

    def _may_track(self) -> bool:
        if self._tracking.is_open:
            return True
        if time.monotonic() < self._track_at:
            return False
        try:
            self._tracking.open()
        except RedisRefused as error:
            self._track_at = time.monotonic() + REFUSED_SECONDS
            if not self._told:
                self._told = True
                logger.info("the server does not tell %s, so it is asked each second: %s", self._tells, error)
            return False
        except RedisUnavailable:
            # Whether the server is away, or only refuses such a connection, shows on the pool.
            self._track_at = time.monotonic() + BROKEN_SECONDS
            return False
        return True

    def sleep(self, seconds: float) -> None:
        """Sleep until then, until what was looked at has changed, or until the `end`."""
        pipe = self._pipe.open()
        if pipe is None:
            return
        try:
            if self._wait(seconds, pipe):
                time.sleep(max(0.0, self._looked_at + REREAD_SECONDS - time.monotonic()))
        except RedisUnavailable:
            self._track_at = time.monotonic() + BROKEN_SECONDS

    def _wait(self, seconds: float, pipe: int) -> bool:
        until = time.monotonic() + seconds
        # Redis 7.0 watches all keys of a script that reads one: the queues and the lease as well.
        while changed := self._tracking.wait(until - time.monotonic(), pipe):
            if not changed.isdisjoint((*self._keys, self._signal)):
                return True
        return False

    def end(self) -> None:
        self._pipe.end()

    def close(self) -> None:
        """For the thread that sleeps here, when it does so no more."""
        self._tracking.close()
        self._pipe.close()
