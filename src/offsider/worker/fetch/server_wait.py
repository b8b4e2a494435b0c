"""Waits for the next job of a capsule.

There are two strategies; a capsule uses the first that the server allows:

1. ``BLOCKED``: a blocking pop (BLMOVE) waits on each queue. Exactly one process wakes for a job, and an idle process
   sends no commands except renewals of the pops. With more than 16 queues, pops wait on the 16 from which most jobs
   came recently, and one pipeline a second checks the others (`QueueChoice`).
2. ``POLLED``: ask again after 1 ms at first, then up to 50 ms. For servers and proxies without blocking pops that can
   be canceled.

No pop waits on a paused queue. A server that is out of memory refuses blocking pops; then the capsule polls until the
server accepts them again.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import Enum
from itertools import islice
from selectors import EVENT_READ, DefaultSelector
from typing import TYPE_CHECKING

from offsider.core.errors import RedisRefused
from offsider.storage.blocking_pops import BlockingPop, BlockingPops
from offsider.storage.queues import lengths

if TYPE_CHECKING:
    from offsider.storage.redis import Redis
    from offsider.storage.working import Owner
    from offsider.worker.unit_of_work import UnitOfWork


class WaitStrategy(Enum):
    """How idle threads wait."""

    BLOCKED = "block in BLMOVE on up to 16 queues"
    POLLED = "poll up to 20 times a second, because the server does not allow BLMOVE and CLIENT UNBLOCK"


MAX_POPS = 16
#: A blocking pop times out after this share of a liveness period, because it cannot notice that its owner was fenced.
POP_LIVES = 0.4
MAX_POP_SECONDS = 25.0
REFUSED_SECONDS = 1.0
MIN_POLL_SECONDS = 0.001
MAX_POLL_SECONDS = 0.05
#: Maximum number of queues in a request, beside those with a pop.
MAX_CLAIM_QUEUES = 32
#: Interval between two checks of the queues without a pop.
CHECK_SECONDS = 1.0
#: Interval between two choices of the queues with a pop.
CHOOSE_SECONDS = 10.0
#: Maximum sleep; then the next round trip checks the fence.
MAX_SLEEP_SECONDS = 60.0


class QueueChoice:
    """Chooses queues of a capsule with more than `MAX_POPS` of them: to block on, and to claim from.

    A request names up to `MAX_POPS` + `MAX_CLAIM_QUEUES` queues. If the capsule has more, it names those to block on,
    and up to `MAX_CLAIM_QUEUES` others that had jobs when all were counted, at most `CHECK_SECONDS` ago. Used by the
    leading thread.

    Args:
        redis: counts the jobs.

    Attributes:
        many: there are more than `MAX_POPS` queues.
        check_at: when to count the jobs of all queues again.
        with_jobs: queues that had jobs then, and have not been seen empty since.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._counts: Counter[str] = Counter()
        self._chosen: Sequence[str] = ()
        self._choose_at = 0.0
        self.many = False
        self.check_at = 0.0
        self.with_jobs: set[str] = set()

    def to_block_on(self, queues: Sequence[str]) -> Sequence[str]:
        """Return up to `MAX_POPS` queues: those from which most jobs came recently, then the most important ones.

        The choice is kept for a while, because a change costs connections.
        """
        self.many = len(queues) > MAX_POPS
        if not self.many:
            return queues
        now = time.monotonic()
        if now >= self._choose_at or not set(self._chosen) <= set(queues):
            self._chosen = sorted(queues, key=lambda queue: -self._counts[queue])[:MAX_POPS]
            self._choose_at = now + CHOOSE_SECONDS
            self._counts = Counter({queue: count // 2 for queue, count in self._counts.items() if count > 1})
        return self._chosen

    def to_claim_from(self, order: Sequence[str], with_pops: Iterable[str]) -> Sequence[str]:
        """Return the queues that may have jobs, in the same order.

        Raises:
            RedisFailure: the jobs could not be counted.
        """
        self.many = len(order) > MAX_POPS
        if len(order) <= MAX_POPS + MAX_CLAIM_QUEUES:
            self.with_jobs.clear()
            return order
        if time.monotonic() >= self.check_at:
            self.check(order)
        wanted = set(islice((queue for queue in order if queue in self.with_jobs), MAX_CLAIM_QUEUES))
        wanted.update(self._chosen, with_pops)
        return [queue for queue in order if queue in wanted]

    def check(self, queues: Sequence[str]) -> bool:
        """Count the jobs of all queues; True if there are any."""
        self.check_at = time.monotonic() + CHECK_SECONDS
        # A queue that is not a list has no size; the claim reads the others.
        self.with_jobs = {queue for queue, size in lengths(self._redis, queues).items() if size != 0}
        return bool(self.with_jobs)

    def note_claimed(self, order: Sequence[str], claimed: Sequence[tuple[str, bytes]], *, limit: int) -> None:
        """Note the queues that a claim has found empty: those before that of its last job, or all."""
        if self.many and limit:
            full = len(claimed) >= limit
            self.with_jobs.difference_update(order[: order.index(claimed[-1][0])] if full else order)

    def note_jobs(self, queues: Iterable[str]) -> None:
        """Count the queue of each job that arrived."""
        if self.many:
            self._counts.update(queues)


class ServerWait:
    """The sleep of one capsule's leading thread. Other threads may only call `wake` and `rebuild`, and read attributes.

    Args:
        redis: creates the connections that wait.
        liveness_seconds: the owner's liveness period, which limits the timeout of a blocking pop.

    Attributes:
        pops: the blocking pops; the next round trip cancels them.
        choice: of the queues.
        asleep: the leading thread sleeps, or is about to. Set before its last check whether it may sleep.
        last_activity_at: of the leading thread in monotonic seconds.
    """

    def __init__(self, redis: Redis, liveness_seconds: float) -> None:
        self._redis = redis
        self._selector = DefaultSelector()
        self._strategy: WaitStrategy | None = None
        self._pop_seconds = min(MAX_POP_SECONDS, liveness_seconds * POP_LIVES)
        self._no_pops_until = 0.0
        self._poll_seconds = MIN_POLL_SECONDS
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        self._pipe = threading.Lock()
        self._asking = threading.Lock()
        self._closed = False
        self._selector.register(self._reading, EVENT_READ)
        self._rebuilding = False
        self.pops = BlockingPops(redis, self._selector)
        self.choice = QueueChoice(redis)
        self.asleep = False
        self.last_activity_at = time.monotonic()

    @property
    def lost_pop_seconds(self) -> float:
        """How long the server may still serve a pop whose connection was lost."""
        return self._pop_seconds + 2.0

    def strategy(self) -> WaitStrategy:
        """Return the strategy that the server allows; the server is asked once.

        Raises:
            RedisUnavailable: the server cannot be reached.
        """
        with self._asking:
            if self._strategy is None:
                self._strategy = WaitStrategy.BLOCKED if self.pops.may_call_back() else WaitStrategy.POLLED
            return self._strategy

    def wake(self) -> None:
        """End the leading thread's sleep, from any thread."""
        with self._pipe, suppress(BlockingIOError):
            if not self._closed:
                os.write(self._writing, b"!")

    def rebuild(self) -> None:
        """Make the leading thread close its connections and open new ones; from any thread."""
        self._rebuilding = True
        self.wake()

    def found(self, units: Sequence[UnitOfWork]) -> None:
        """Reset the polling interval after jobs were found, and note their queues."""
        self._poll_seconds = MIN_POLL_SECONDS
        self.choice.note_jobs(unit.queue for unit in units)

    def sleep(
        self,
        owner: Owner,
        queues: Sequence[str],
        may_sleep: Callable[[], bool],
        *,
        max_seconds: float = MAX_SLEEP_SECONDS,
    ) -> None:
        """Sleep until there may be work, or for ``max_seconds``.

        Args:
            owner: pops move jobs into its lists.
            queues: the queues of the capsule that are not paused, the most important first.
            may_sleep: returns whether there is still nothing to do; called after `asleep` is visible to other threads.

        Raises:
            RedisFailure: the wait failed.
        """
        self.asleep = True
        try:
            if self._rebuilding:
                self._close_connections()
            if self._may_block():
                self._block(owner, queues, may_sleep, max_seconds)
            else:
                self._poll(queues, may_sleep)
        finally:
            self.asleep = False
            self.last_activity_at = time.monotonic()

    def _may_block(self) -> bool:
        return self.strategy() is WaitStrategy.BLOCKED and time.monotonic() >= self._no_pops_until

    def _poll(self, queues: Sequence[str], may_sleep: Callable[[], bool]) -> None:
        pause_seconds = CHECK_SECONDS
        if queues:
            self.choice.to_block_on(queues)  # claims name these in any case
            pause_seconds = self._poll_seconds
            self._poll_seconds = min(self._poll_seconds * 2, MAX_POLL_SECONDS)
        if may_sleep():
            self._select(pause_seconds)

    def _block(self, owner: Owner, queues: Sequence[str], may_sleep: Callable[[], bool], max_seconds: float) -> None:
        blocked = self.choice.to_block_on(queues)
        now = time.monotonic()
        wake_at = now + max_seconds
        while may_sleep():
            self.pops.start(owner, blocked, self._pop_seconds)
            now = time.monotonic()
            # The watchdog considers a leading thread stuck that shows no activity for twice the timeout of a pop.
            overdue_at = self.pops.next_deadline() or now + self._pop_seconds
            check_at = self.choice.check_at if self.choice.many else math.inf
            if self._select(max(0.0, min(wake_at, check_at, overdue_at) - now)):
                return
            self.last_activity_at = now = time.monotonic()
            self.pops.drop_overdue()
            if self.pops.ambiguous or now >= wake_at:
                return
            if now >= check_at and self.choice.check(queues):
                return

    def _select(self, timeout_seconds: float) -> bool:
        """Wait, and read the replies; True if there may be jobs."""
        woken = False
        for key, _ in self._selector.select(timeout_seconds):
            if isinstance(key.data, BlockingPop):
                self.pops.read(key.data)
            else:
                self._drain_pipe()
                woken = True
        return self._handle_failure() or woken or bool(self.pops.brought)

    def _handle_failure(self) -> bool:
        """Return whether a pop has failed. The caller then runs the claim script, which works where pops fail."""
        failure, self.pops.failure = self.pops.failure, None
        if isinstance(failure, RedisRefused):
            # OOM from a full server, UNBLOCKED when the server changes its role.
            self._no_pops_until = time.monotonic() + REFUSED_SECONDS
            if failure.code == "NOPERM":
                self._strategy = WaitStrategy.POLLED
        return failure is not None

    def lost_a_pop(self) -> bool:
        """Return whether, since the last call, a pop may have moved a job without a reply reaching this process."""
        self._handle_failure()
        lost, self.pops.ambiguous = self.pops.ambiguous, False
        return lost

    def _drain_pipe(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self._reading, 4096):
                pass

    def _close_connections(self) -> None:
        self._rebuilding = False
        self._strategy = None
        self.pops.close()

    def close(self) -> None:
        """Close all connections. No thread may sleep here afterwards."""
        self._close_connections()
        self._selector.close()
        with self._pipe:
            self._closed = True
            os.close(self._reading)
            os.close(self._writing)
