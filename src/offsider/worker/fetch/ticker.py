"""The ticker: while jobs are ready or unacknowledged, a thread checks every 20 ms that none of them waits for long."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from offsider.runtime.service import Loop

if TYPE_CHECKING:
    from offsider.worker.fetch.acknowledger import Acknowledger
    from offsider.worker.fetch.fetcher import FetcherContext
    from offsider.worker.fetch.immediate import ImmediateWrites
    from offsider.worker.fetch.leading_thread import LeadingThread
    from offsider.worker.fetch.state import FetcherState

TICK_SECONDS = 0.02
#: The ticker waits this long for the leading thread, then acts without it.
HUNG_SECONDS = 1.0


class Ticker:
    """The ticker of one capsule.

    Attributes:
        ticking: it checks every 20 ms; otherwise it sleeps until `wake`.
    """

    def __init__(
        self,
        context: FetcherContext,
        state: FetcherState,
        leading: LeadingThread,
        immediate: ImmediateWrites,
        acknowledger: Acknowledger,
    ) -> None:
        self._prefetched = state.prefetched
        self._unacknowledged = state.unacknowledged
        self._idle = state.idle
        self._leading = leading
        self._line = leading.line
        self._immediate = immediate
        self._acknowledger = acknowledger
        self._loop = Loop(f"offsider-{context.capsule.name}-ticker", self.tick, on_error=context.config.handle_error)
        self.ticking = False

    def wake(self) -> None:
        """Start ticking. The first call starts the thread."""
        if not self.ticking:
            self.ticking = True
            self._loop.start()
            self._loop.wake()

    def stop(self) -> None:
        self._loop.stop()

    def join(self, timeout_seconds: float | None = None) -> bool:
        """Wait for the end of the thread; True if it has ended."""
        return self._loop.join(timeout_seconds)

    def tick(self) -> float:
        """Requeue jobs that wait too long for a thread, and write acknowledgements that are still unsent."""
        now = time.monotonic()
        answered_at = self._line.answered_at
        if self._idle.listening and answered_at < now - TICK_SECONDS / 2:
            self._idle.ring(1 + len(self._prefetched.ready))
        if self._line.waits_since(now - TICK_SECONDS) or self._prefetched.waits_since(now - TICK_SECONDS):
            self._requeue_what_nobody_takes()
        if self._unacknowledged.unsent and answered_at < now - TICK_SECONDS:
            self._acknowledger.flush()
        if self._is_busy():
            return TICK_SECONDS
        self.ticking = False
        return TICK_SECONDS if self._is_busy() else 3600.0

    def _is_busy(self) -> bool:
        """Return whether the next tick has work to check, or threads sleep without a leading thread."""
        unled = self._idle.listening > 0 and not self._idle.led
        return unled or bool(self._prefetched.ready or self._unacknowledged.unsent or self._line.under_way)

    def _requeue_what_nobody_takes(self) -> None:
        """Requeue the jobs that were claimed last, except one for each idle thread, which may be slow to wake up.

        This includes jobs of a request whose thread now runs a long job. The ticker takes the lead until it is done:
        another thread with the lead would claim later jobs, which would then run before these. If the leading thread
        hangs, the ticker acts without the lead after HUNG_SECONDS.
        """
        leading = self._idle.try_lead(TICK_SECONDS)
        if not leading and not self._prefetched.waits_since(time.monotonic() - HUNG_SECONDS):
            return
        try:
            if leading:
                self._leading.attempt(self._line.collect_all)
            self._immediate.requeue(self._prefetched.take_last(0 if self._unacknowledged.stuck else self._idle.count))
        finally:
            if leading:
                self._leading.pass_lead()
        self._acknowledger.follow_up()
