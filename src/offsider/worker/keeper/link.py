"""The worker's side of its keeper: tells it who the worker is, at each beat and at each change.

When the keeper is gone the worker says so once, and goes on alone: its own beats keep it alive as long as no job holds
the interpreter for a liveness life.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from offsider.core.series import Series
from offsider.storage.owners import Lists
from offsider.storage.redis import RedisSettings
from offsider.worker.health_state import READY
from offsider.worker.keeper.channel import Channel, KeeperGone
from offsider.worker.keeper.messages import LEFT, Counted, Report, encode

logger = logging.getLogger("offsider")

#: A datagram holds more, whatever the names in it.
SERIES_AT_ONCE = 50


class KeeperLink:
    """What a worker tells its keeper. Safe for threads; never waits, never raises.

    Args:
        channel: to the keeper.
        keeper_pid: of a keeper that is this process's own child and has to be reaped here; 0 when it is another's.

    Attributes:
        state: asked at each report for the worker's state.
        stuck: asked at each report for what is broken in the worker and stays so.
        max_strikes: ``worker.max_strikes``; the keeper leaves what would have to be buried to others.
    """

    def __init__(self, channel: Channel, keeper_pid: int = 0) -> None:
        self._channel = channel
        self._keeper_pid = keeper_pid
        self._lock = threading.Lock()
        self._last: tuple[Lists, int, RedisSettings] | None = None
        self._life_seconds = 0.0
        self._uncounted: list[Series] = []
        self._gone = False
        self.state: Callable[[], str] = lambda: READY
        self.stuck: Callable[[], Sequence[str]] = tuple
        self.max_strikes = 3

    @property
    def gone(self) -> bool:
        """Whether the keeper has ended before this worker."""
        return self._gone

    def owns(self, lists: Lists, life_ms: int, redis: RedisSettings) -> None:
        """The worker answers for these lists from now on."""
        with self._lock:
            self._last = (lists, life_ms, redis)
            self._life_seconds = life_ms / 1000
            self._report()

    def repeat(self) -> None:
        """Say it once more, with the state of now; nothing before the first `owns` and after `left`."""
        with self._lock:
            self._report()

    def left(self) -> None:
        """The worker has left the registries with nothing in its lists: its end leaves nothing to do."""
        with self._lock:
            self._report(LEFT)
            self._last = None

    def count(self, series: Sequence[Series], busy: int, concurrency: int) -> None:
        """What was counted since the last time; what finds no room is told the next time."""
        with self._lock:
            self._uncounted += series
            while not self._gone:
                some, rest = self._uncounted[:SERIES_AT_ONCE], self._uncounted[SERIES_AT_ONCE:]
                if not self._send(encode(Counted(os.getpid(), some, busy, concurrency))):
                    return
                self._uncounted = rest
                if not rest:
                    return

    def _report(self, state: str = "") -> None:
        if self._last is None or self._gone:
            return
        lists, life_ms, redis = self._last
        report = Report(
            os.getpid(), lists, life_ms, redis, state or self.state(), tuple(self.stuck()), self.max_strikes
        )
        self._send(encode(report))

    def _send(self, datagram: bytes) -> bool:
        try:
            return self._channel.send(datagram)
        except KeeperGone as error:
            self._gone = True
            self._reap()
            logger.warning(
                "the keeper is gone (%s): this process goes on alone; a job that holds the interpreter for %g s "
                "now makes others take it for dead",
                error,
                self._life_seconds,
            )
            return False

    def _reap(self) -> None:
        if self._keeper_pid:
            with suppress(ChildProcessError):  # the application has reaped it
                os.waitpid(self._keeper_pid, os.WNOHANG)
