"""Reads keys for a service, and sleeps until they change: by server notifications if possible, else by polling.

1. While a connection tracks keys (CLIENT TRACKING), reads use it, and `sleep` ends as soon as a key that was read
   changes.
2. If the server refuses tracking, reads use the pool and the service polls; a minute later it tries tracking again.
3. After a connection failure, tracking pauses for a few seconds, to avoid a reconnect loop.
4. `end` ends the current sleep and every later one, from any thread; `close` closes the connection.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from offsider.core.errors import OffsiderError, RedisRefused, RedisUnavailable
from offsider.runtime.wake_pipe import WakePipe
from offsider.storage.redis import Redis
from offsider.storage.scripts import Command
from offsider.storage.tracking import Tracking

logger = logging.getLogger("offsider")

#: Minimum time between two reads caused by changes, so that a thousand scheduled jobs do not cause a thousand reads.
REREAD_SECONDS = 0.005
REFUSED_SECONDS = 60.0
BROKEN_SECONDS = 5.0


class KeyWatch:
    """Used by a single thread; other threads may only call `end`.

    Args:
        redis: the pool to use while no connection tracks keys.
        keys: keys that `exchange` reads; their changes end a sleep.
        signal: returns a key that `exchange` does not read; its changes end a sleep as well.
        tells: completes "the server sends no notifications ..." in the log.
    """

    def __init__(
        self, redis: Redis, keys: Sequence[str], signal: Callable[[], str], *, tells: str = "when jobs are scheduled"
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
        """Whether the server will notify this connection of the next change of each key."""
        return all(map(self._tracking.watches, (*self._keys, self._signal())))

    def exchange(self, commands: Sequence[Command]) -> list[Any]:
        """Run commands, the last of which reads the keys; error replies are elements of the list.

        Raises:
            RedisUnavailable: the connection failed, ``ambiguous`` once something was sent.
            RedisRefused: the server does not allow tracking of the signal.
        """
        self._looked_at = time.monotonic()
        if self._may_track():
            signal = self._signal()
            if not self._tracking.watches(signal):
                self._tracking.watch(signal)
            return self._tracking.read(self._keys, commands)
        return self._redis.pipeline(commands, raise_errors=False)

    def write(self, command: Command) -> Any:
        """Run a command that reads no key. Its reply proves that the connection still receives notifications.

        Raises:
            RedisFailure: it failed.
        """
        if not self.is_told:
            return self._redis.call(*command)
        [reply] = self._tracking.read((), [command])
        if isinstance(reply, OffsiderError):
            raise reply
        return reply

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
                logger.info("the server sends no notifications %s; polling each second: %s", self._tells, error)
            return False
        except RedisUnavailable:
            # The pool will show whether the server is unavailable, or only this kind of connection.
            self._track_at = time.monotonic() + BROKEN_SECONDS
            return False
        return True

    def sleep(self, seconds: float) -> None:
        """Sleep for this time, until a key changes, or until `end`."""
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
        # Redis 7.0 tracks all keys of a script that reads one, including the queues and the lease.
        while changed := self._tracking.wait(until - time.monotonic(), pipe):
            if not changed.isdisjoint((*self._keys, self._signal())):
                return True
        return False

    def end(self) -> None:
        self._pipe.end()

    def close(self) -> None:
        """Close the connection; called by the sleeping thread after its last sleep."""
        self._tracking.close()
        self._pipe.close()
