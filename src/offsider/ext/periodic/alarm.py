"""Sleep until the next tick, or until the registered jobs change.

1. `watch` asks the server to notify this process of changes to one key (client tracking), on its own connection. If
   the server refuses, the process polls every few seconds.
2. `sleep` returns after its time, at a change, or on `end`, which any thread may call.
"""

from __future__ import annotations

import time

from offsider.core.errors import RedisRefused, RedisUnavailable
from offsider.runtime.wake_pipe import WakePipe
from offsider.storage.redis import Redis
from offsider.storage.tracking import Tracking

#: Maximum sleep with notifications. Not longer, because machine clocks drift.
TOLD_SECONDS = 60.0
#: Maximum sleep without notifications.
UNTOLD_SECONDS = 5.0
#: Delay before the next attempt to subscribe after a refusal or a lost connection.
REFUSED_SECONDS = 60.0
BROKEN_SECONDS = 5.0


class Alarm:
    """A sleep that a change of a key ends. Use it from one thread; other threads may only call `end`.

    Args:
        redis: the server of the key.
        key: the key to watch.
    """

    def __init__(self, redis: Redis, key: str) -> None:
        self._key = key
        self._tracking = Tracking(redis.settings)
        self._track_at = 0.0
        self._pipe = WakePipe()

    @property
    def longest_seconds(self) -> float:
        """Maximum duration of a sleep."""
        return TOLD_SECONDS if self._tracking.is_open else UNTOLD_SECONDS

    def watch(self) -> None:
        """Subscribe to changes, if the server supports it. Call this before you read the state that may change."""
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
        """Sleep for ``seconds``, until the key changes, or until `end`."""
        pipe = self._pipe.open()
        if pipe is None:
            return
        try:
            self._tracking.wait(min(seconds, self.longest_seconds), pipe)
        except RedisUnavailable:
            self._track_at = time.monotonic() + BROKEN_SECONDS

    def end(self) -> None:
        """End the current sleep and every later one."""
        self._pipe.end()

    def close(self) -> None:
        """Close the connection and the pipe. Only the sleeping thread may call it."""
        self._tracking.close()
        self._pipe.close()
