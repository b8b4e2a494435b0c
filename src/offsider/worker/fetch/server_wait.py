"""Waits for the next job of a capsule, at no cost while there is none.

There are three strategies; a capsule uses the first that the server allows:

1. ``BLOCKED``: a blocking pop (BLMOVE) waits on each of the first 16 queues. Exactly one process wakes for a job, and
   an idle process sends no commands except renewals of the pops.
2. ``TRACKED``: the server sends a notification when a queue is written to (CLIENT TRACKING). Used for the queues after
   the 16th, and for all queues if the server does not allow canceling blocking pops. A notification wakes every idle
   process.
3. ``POLLED``: ask again after 1 ms at first, then up to 50 ms. For servers and proxies that allow neither.

A paused queue is neither blocked on nor tracked, but checked once a second. A server that is out of memory refuses
blocking pops; then the capsule polls until the server accepts them again.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from selectors import EVENT_READ, DefaultSelector
from typing import TYPE_CHECKING

from offsider.core.errors import RedisRefused, RedisUnavailable
from offsider.storage.blocking_pops import BlockingPop, BlockingPops
from offsider.storage.tracking import TRUSTED_SECONDS, Tracking

if TYPE_CHECKING:
    from offsider.storage.redis import Redis
    from offsider.storage.working import Owner

logger = logging.getLogger("offsider")


class WaitStrategy(Enum):
    """How idle threads wait."""

    BLOCKED = "block in BLMOVE on up to 16 queues"
    TRACKED = "wait for notifications from CLIENT TRACKING"
    POLLED = "poll up to 20 times a second, because the server allows neither BLMOVE nor CLIENT TRACKING"

    @property
    def described(self) -> str:
        return self.value


MOST_POPS = 16
#: A blocking pop times out after this share of a liveness period, because it cannot notice that its owner was fenced.
POP_LIVES = 0.4
MOST_POP_SECONDS = 25.0
PAUSED_SECONDS = 1.0
REFUSED_SECONDS = 1.0
POLL_FIRST_SECONDS = 0.001
POLL_MOST_SECONDS = 0.05
#: Maximum sleep; then the next round trip reads the paused queues and checks the fence.
LONGEST_SECONDS = 60.0


class ServerWait:
    """The sleep of one capsule's leading thread. Other threads may only call `wake` and `rebuild`, and read attributes.

    Args:
        redis: creates the connections that wait.
        liveness_seconds: the owner's liveness period, which limits the timeout of a blocking pop.

    Attributes:
        pops: the blocking pops; the next round trip cancels them.
        asleep: the leading thread sleeps, or is about to. Set before its last check whether it may sleep.
        knows_pauses: the paused queues of the last round trip are still current: the server has sent no change.
        stirred: last activity of the leading thread in monotonic seconds.
    """

    def __init__(self, redis: Redis, liveness_seconds: float) -> None:
        self._selector = DefaultSelector()
        self._tracking = Tracking(redis.settings)
        self._tracking_fileno = -1
        self._may_track = True
        self.knows_pauses = False
        self._strategy: WaitStrategy | None = None
        self._pop_seconds = min(MOST_POP_SECONDS, liveness_seconds * POP_LIVES)
        self._no_pops_until = 0.0
        self._poll_seconds = POLL_FIRST_SECONDS
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        self._pipe = threading.Lock()
        self._asking = threading.Lock()
        self._closed = False
        self._selector.register(self._reading, EVENT_READ)
        self._rebuilding = False
        self.pops = BlockingPops(redis, self._selector)
        self.asleep = False
        self.stirred = time.monotonic()

    @property
    def straggling_seconds(self) -> float:
        """How long the server may still serve a pop whose connection was lost."""
        return self._pop_seconds + 2.0

    def strategy(self) -> WaitStrategy:
        """Return the strategy that the server allows; the server is asked once.

        Raises:
            RedisUnavailable: the server cannot be reached.
        """
        with self._asking:
            if self._strategy is None:
                self._strategy = WaitStrategy.BLOCKED if self.pops.may_call_back() else self._without_pops()
            return self._strategy

    def _without_pops(self) -> WaitStrategy:
        try:
            self._tracking.open()
        except RedisRefused:
            self._may_track = False
        return WaitStrategy.TRACKED if self._may_track else WaitStrategy.POLLED

    def wake(self) -> None:
        """End the leading thread's sleep, from any thread."""
        with self._pipe, suppress(BlockingIOError):
            if not self._closed:
                os.write(self._writing, b"!")

    def rebuild(self) -> None:
        """Make the leading thread close its connections and open new ones; from any thread."""
        self._rebuilding = True
        self.wake()

    def found(self) -> None:
        """Reset the polling interval after a job was found."""
        self._poll_seconds = POLL_FIRST_SECONDS

    def sleep(self, owner: Owner, queues: Sequence[str], paused: frozenset[str], may_sleep: Callable[[], bool]) -> None:
        """Sleep until there may be work.

        Args:
            owner: pops move jobs into its lists.
            queues: all queues of the capsule, the most important first.
            paused: paused queues.
            may_sleep: returns whether there is still nothing to do; called after `asleep` is visible to other threads.

        Raises:
            RedisFailure: the wait failed.
        """
        self.asleep = True
        try:
            self._sleep(owner, [queue for queue in queues if queue not in paused], bool(paused), may_sleep)
        finally:
            self.asleep = False
            self.stirred = time.monotonic()

    def _sleep(self, owner: Owner, queues: Sequence[str], some_paused: bool, may_sleep: Callable[[], bool]) -> None:  # noqa: FBT001
        if self._rebuilding:
            self._give_up_connections()
        blocking, rest = self._divided(queues)
        if blocking and not self._hears_of_pauses():
            return  # notifications start only now: read the paused queues once more
        wake_at = time.monotonic() + self._longest(rest, some_paused)
        while may_sleep():
            self.pops.start(owner, blocking, self._pop_seconds)
            if self._watch(rest):
                return
            now = time.monotonic()
            # The watchdog considers a leading thread stuck that shows no activity for twice the timeout of a pop.
            deadline = self.pops.next_deadline() or now + TRUSTED_SECONDS
            if self._select(max(0.0, min(wake_at, deadline) - now)):
                return
            self.stirred = time.monotonic()
            self.pops.drop_overdue()
            if self.pops.doubtful or self.stirred >= wake_at or (blocking and not self._hears_of_pauses()):
                return

    def _hears_of_pauses(self) -> bool:
        """Track changes of the paused queues; True if they were tracked ever since they were last read.

        Without tracking, a job from a blocking pop may start only after a check whether its queue is paused.
        """
        if not self._may_track:
            return True
        paused = self._tracking.keys.paused
        try:
            if self.knows_pauses and self._tracking.is_open:
                self._tracking.prove()
                if self._tracking.watches(paused):
                    return True
            self._tracking.watch(paused)
        except RedisRefused:
            self._may_track = False
        else:
            self.knows_pauses = True
        finally:
            self._register_tracking()
        return False

    def _divided(self, queues: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
        """Divide the queues into those to block on, and the rest."""
        if self.strategy() is not WaitStrategy.BLOCKED or time.monotonic() < self._no_pops_until:
            return (), queues
        return queues[:MOST_POPS], queues[MOST_POPS:]

    def _longest(self, rest: Sequence[str], some_paused: bool) -> float:  # noqa: FBT001
        longest = PAUSED_SECONDS if some_paused else LONGEST_SECONDS
        # A server that refuses blocking pops because it is out of memory may also fail to send notifications.
        if rest and self._may_track and time.monotonic() >= self._no_pops_until:
            longest = min(longest, TRUSTED_SECONDS)
        elif rest:
            longest = min(longest, self._poll_seconds)
            self._poll_seconds = min(self._poll_seconds * 2, POLL_MOST_SECONDS)
        return longest

    def _watch(self, queues: Sequence[str]) -> bool:
        """Track changes of these queues; True if one of them has changed, or has jobs already."""
        if not queues or not self._may_track:
            return False
        if self._heed_changes():
            return True
        try:
            filled = self._tracking.watch_lists(queues)
        except RedisRefused as error:
            logger.warning("the server refuses CLIENT TRACKING, polling instead: %s", error)
            self._may_track = False
            return True
        finally:
            self._register_tracking()
        return self._heed_changes() or filled

    def _heed_changes(self) -> bool:
        try:
            changed = self._tracking.changed()
        except RedisUnavailable:
            # The next round trip shows whether the server is unavailable; it also finds changes that were missed.
            changed = {self._tracking.keys.paused}
        finally:
            self.knows_pauses = self.knows_pauses and self._tracking.is_open
            self._register_tracking()  # before a pop can reuse the descriptor of the closed socket
        if self._tracking.keys.paused in changed:
            self.knows_pauses = False
        return bool(changed)

    def _register_tracking(self) -> None:
        fileno = self._tracking.fileno() if self._tracking.is_open else -1
        if fileno != self._tracking_fileno:
            if self._tracking_fileno >= 0:
                self._selector.unregister(self._tracking_fileno)
            if fileno >= 0:
                self._selector.register(fileno, EVENT_READ, self._tracking)
            self._tracking_fileno = fileno

    def _select(self, timeout_seconds: float) -> bool:
        """Wait, and read the replies; True if there may be jobs."""
        woken = False
        for key, _ in self._selector.select(timeout_seconds):
            if isinstance(key.data, BlockingPop):
                self.pops.read(key.data)
            elif isinstance(key.data, Tracking):
                woken = self._heed_changes() or woken
            else:
                self._drain_pipe()
                woken = True
        return self._heed_failure() or woken or bool(self.pops.brought)

    def _heed_failure(self) -> bool:
        """Return whether a pop has failed. The caller then runs the claim script, which works where pops fail."""
        failure, self.pops.failure = self.pops.failure, None
        if isinstance(failure, RedisRefused):
            # OOM from a full server, UNBLOCKED when the server changes its role.
            self._no_pops_until = time.monotonic() + REFUSED_SECONDS
            if failure.code == "NOPERM":
                self._strategy = self._without_pops()
        return failure is not None

    def lost_a_pop(self) -> bool:
        """Return whether, since the last call, a pop may have moved a job without a reply reaching this process."""
        self._heed_failure()
        lost, self.pops.doubtful = self.pops.doubtful, False
        return lost

    def _drain_pipe(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._reading, 4096):
                pass

    def _give_up_connections(self) -> None:
        self._rebuilding = False
        self._strategy = None
        self.pops.close()
        self._tracking.close()
        self.knows_pauses = False
        self._register_tracking()

    def close(self) -> None:
        """Close all connections. No thread may sleep here afterwards."""
        self._give_up_connections()
        self._selector.close()
        with self._pipe:
            self._closed = True
            os.close(self._reading)
            os.close(self._writing)
