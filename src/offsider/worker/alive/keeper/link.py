"""The worker's connection to its keeper: reports the worker at each beat and at each change.

If the keeper exits, the worker logs one warning and continues. Its own beats then keep it alive, unless a job blocks
the interpreter for a whole liveness period (`worker.liveness_seconds`).
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from offsider.core.series import Series
from offsider.storage.owners import Lists
from offsider.storage.redis import RedisSettings
from offsider.worker.alive.keeper.channel import Channel, KeeperGone
from offsider.worker.alive.keeper.messages import LEFT, Counted, Report, encode
from offsider.worker.health_state import READY

logger = logging.getLogger("offsider")

#: Fits into one datagram, even with long names.
SERIES_AT_ONCE = 50


class KeeperProcess(NamedTuple):
    """A running keeper.

    Attributes:
        channel: to the keeper.
        pid: if it is a child of this process and must be reaped here; 0 if another process started it.
    """

    channel: Channel
    pid: int = 0


class Status(NamedTuple):
    """The part of a report that only the worker can fill in; see `Report`."""

    state: str = READY
    stuck: tuple[str, ...] = ()
    max_strikes: int = 3


class KeeperLink:
    """Sends reports of a worker to its keeper. Thread-safe; never blocks, never raises.

    Args:
        keeper: receives the reports.
        status: called at each report.
    """

    def __init__(self, keeper: KeeperProcess, status: Callable[[], Status]) -> None:
        self._channel = keeper.channel
        self._keeper_pid = keeper.pid
        self._status = status
        self._lock = threading.Lock()
        self._last: tuple[Lists, int, RedisSettings] | None = None
        self._life_seconds = 0.0
        self._uncounted: list[Series] = []
        self._gone = False

    @property
    def gone(self) -> bool:
        """Whether the keeper has exited before this worker."""
        return self._gone

    def owns(self, lists: Lists, life_ms: int, redis: RedisSettings) -> None:
        """Report that the worker owns these lists from now on, and has just sent a liveness beat."""
        with self._lock:
            self._last = (lists, life_ms, redis)
            self._life_seconds = life_ms / 1000
            self._report(beaten=True)

    def repeat(self) -> None:
        """Repeat the report with the current state. Does nothing before the first `owns` and after `left`."""
        with self._lock:
            self._report()

    def left(self) -> None:
        """Report that the worker has left the registries and its lists are empty, so its end needs no action."""
        with self._lock:
            self._report(LEFT)
            self._last = None

    def count(self, series: Sequence[Series], busy: int, concurrency: int) -> None:
        """Send the counts since the last call; counts that do not fit are sent with the next call."""
        with self._lock:
            self._uncounted += series
            while not self._gone:
                some, rest = self._uncounted[:SERIES_AT_ONCE], self._uncounted[SERIES_AT_ONCE:]
                if not self._send(encode(Counted(os.getpid(), some, busy, concurrency))):
                    return
                self._uncounted = rest
                if not rest:
                    return

    def _report(self, state: str = "", *, beaten: bool = False) -> None:
        if self._last is None or self._gone:
            return
        lists, life_ms, redis = self._last
        now = self._status()
        report = Report(os.getpid(), lists, life_ms, redis, state or now.state, now.stuck, now.max_strikes, beaten)
        self._send(encode(report))

    def _send(self, datagram: bytes) -> bool:
        try:
            return self._channel.send(datagram)
        except KeeperGone as error:
            self._gone = True
            self._reap()
            logger.warning(
                "the keeper is gone (%s): this worker continues without it; if a job blocks the interpreter for %g s, "
                "other workers will declare this one dead and run its jobs",
                error,
                self._life_seconds,
            )
            return False

    def _reap(self) -> None:
        if self._keeper_pid:
            with suppress(ChildProcessError):  # reaped by the application
                os.waitpid(self._keeper_pid, os.WNOHANG)
