"""Has the acknowledgements of finished jobs written, and the replies reported."""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

from offsider.worker.fetch.prefetched import take_all

if TYPE_CHECKING:
    from offsider.worker.fetch.fetcher import FetcherContext
    from offsider.worker.fetch.immediate import ImmediateWrites
    from offsider.worker.fetch.leading_thread import LeadingThread
    from offsider.worker.fetch.state import FetcherState
    from offsider.worker.fetch.unacknowledged import Finished

#: From this number of finished jobs per second on, a thread waits for GATHER_SECONDS before it writes acknowledgements,
#: so that one request contains more of them.
CROWDED = 2_000
GATHER_SECONDS = 0.0002
#: How long a thread waits for the leading thread to write its acknowledgement.
AWAIT_LEADING_SECONDS = 0.005


class Acknowledger:
    """Writes the acknowledgements of one capsule that should not wait for the next claim."""

    def __init__(
        self, context: FetcherContext, state: FetcherState, leading: LeadingThread, immediate: ImmediateWrites
    ) -> None:
        self._takes_next = context.takes_next
        self._state = state
        self._unacknowledged = state.unacknowledged
        self._idle = state.idle
        self._wait = state.wait
        self._leading = leading
        self._line = leading.line
        self._immediate = immediate

    def send_off(self, finished: Finished) -> None:
        """Have an acknowledgement written before its thread starts another job."""
        if not self._wait.asleep:
            with self._idle.joined() if self._takes_next() else nullcontext():
                self._wait_until_sent(finished)
        if not finished.sent and not self.flush():
            # The next leading thread writes it; until then no thread starts a job.
            self._line.dry, self._unacknowledged.stuck = False, True
            self._wait.wake()
        self.follow_up()

    def flush(self) -> bool:
        """Acknowledge finished jobs without claiming.

        Returns:
            False if that was not possible: a comparison is due, or a request has just failed.
        """
        if self._state.reconciler.due or self._leading.resting:
            return False
        written = not self._unacknowledged.unsent or self._leading.attempt(
            lambda: self._line.ack_and_claim(claim=False, leading=False)
        )
        self.follow_up()
        return written

    def follow_up(self) -> None:
        """Report finished jobs and requeue a surplus after a round trip; the caller has no lock."""
        self._unacknowledged.report()
        if self._state.prefetched.surplus:
            self._immediate.requeue(take_all(self._state.prefetched.surplus))

    def _wait_until_sent(self, finished: Finished) -> None:
        finished.waiter = waiter = threading.Lock()
        waiter.acquire()
        while not (finished.sent or self._unacknowledged.stuck or self._state.reconciler.due or self._wait.asleep):
            if self._idle.try_lead():
                self._lead_for(finished)
            else:
                # The leading thread writes the acknowledgement, or wakes this thread to lead.
                waiter.acquire(timeout=AWAIT_LEADING_SECONDS)

    def _lead_for(self, finished: Finished) -> None:
        try:
            if not finished.sent:
                if self._line.claims.prefetch.per_second >= CROWDED:
                    time.sleep(GATHER_SECONDS)
                self._leading.attempt(self._leading.acknowledge)
        finally:
            self._leading.pass_lead()
        self._unacknowledged.wake_oldest()
