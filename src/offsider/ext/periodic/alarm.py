"""Sleeping until a tick: exactly as long as that, unless somebody changes what is registered meanwhile.

1. `watch` has the server tell of changes to one key, on a connection of its own. Who is refused that looks again every
   few seconds.
2. `sleep` ends at its time, at such a change, or at the `end`, which any thread may call.
"""

from __future__ import annotations

import time

from offsider.core.errors import RedisRefused, RedisUnavailable
from offsider.storage.redis import Redis
from offsider.storage.tracking import Tracking
from offsider.wiring.wake_pipe import WakePipe

#: Between two looks of a process that is told of changes: clocks of machines drift.
TOLD_SECONDS = 60.0
#: The same for one that is not told.
UNTOLD_SECONDS = 5.0
#: How long is done without being told after the connection was refused or broke.
REFUSED_SECONDS = 60.0
BROKEN_SECONDS = 5.0


class Alarm:
    """One for one thread; only `end` may be called by others.

    Args:
        redis: where the key is.
        key: whose changes end a sleep.
    """

    def __init__(self, redis: Redis, key: str) -> None:
        self._key = key
        self._tracking = Tracking(redis.settings)
        self._track_at = 0.0
        self._pipe = WakePipe()

    @property
    def longest_seconds(self) -> float:
        """How long a sleep may be at most."""
        return TOLD_SECONDS if self._tracking.is_open else UNTOLD_SECONDS

    def watch(self) -> None:
        """Have changes from now on told, where the server does that. Before what they may change is read."""
        if not self._tracking.is_open and time.monotonic() < self._track_at:
            return
        try:
            if not self._tracking.watches(self._key):
                self._tracking.watch(self._key)
        except RedisRefused:
            self._tracking.close()
            self._track_at = time.monotonic() + REFUSED_SECONDS
        except RedisUnavailable:
            self._track_at = time.monotonic() + BROKEN_SECONDS

    def sleep(self, seconds: float) -> None:
        """Sleep until then, until the key has changed, or until the `end`."""
        pipe = self._pipe.open()
        if pipe is None:
            return
        try:
            self._tracking.wait(min(seconds, self.longest_seconds), pipe)
        except RedisUnavailable:
            self._track_at = time.monotonic() + BROKEN_SECONDS

    def end(self) -> None:
        """End the sleep, and every later one."""
        self._pipe.end()

    def close(self) -> None:
        """For the thread that sleeps here, when it does so no more."""
        self._tracking.close()
        self._pipe.close()
