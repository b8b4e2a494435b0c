"""The work of the thread with the lead: claim jobs for all threads, wait for the server, and distribute the jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure, RedisUnavailable
from offsider.storage import working
from offsider.worker import outage
from offsider.worker.fetch.line import Line
from offsider.worker.fetch.requests import MANY, Request
from offsider.worker.fetch.server_wait import CHECK_SECONDS, MAX_SLEEP_SECONDS
from offsider.worker.outage import Outage
from offsider.worker.unit_of_work import UnitOfWork

if TYPE_CHECKING:
    from offsider.storage.working import ClaimReply, Owner
    from offsider.worker.fetch.fetcher import FetcherContext
    from offsider.worker.fetch.state import FetcherState

REFUSED_SECONDS = 0.05


class LeadingThread:
    """Operations of the thread that has the lead of one capsule. Other threads may use only `attempt`,
    `hurry` and `resting`.

    Args:
        wake_ticker: called if jobs remain that the caller does not take itself, and after a request was written.

    Attributes:
        line: its round trips.
    """

    def __init__(
        self,
        context: FetcherContext,
        state: FetcherState,
        wake_ticker: Callable[[], None],
    ) -> None:
        self._context = context
        self._state = state
        self._wait = state.wait
        self._idle = state.idle
        self._wake_ticker = wake_ticker
        self._outage = Outage(f"fetcher of capsule {context.capsule.name}", context.config)
        self.line = Line(context, state, self._take_in)
        self._failed_at = -outage.RETRY_SECONDS

    @property
    def resting(self) -> bool:
        """Whether a request has just failed, so that only the leading thread retries."""
        recent = time.monotonic() < self._failed_at + outage.RETRY_SECONDS
        return recent and self.line.answered_at <= self._failed_at

    def hurry(self) -> None:
        """Skip the pause after a failure."""
        self._failed_at = -outage.RETRY_SECONDS

    def attempt(self, step: Callable[[], object]) -> bool:
        """Make a request; if it fails, report the failure and return False."""
        try:
            step()
        except RedisFailure as error:
            self._note_failed(error)
            return False
        self._outage.over()
        return True

    def pass_lead(self, takes: int = 0) -> None:
        """Release the lead, and wake as many sleepers as there is work for: one to lead, and one for each ready job.

        If jobs take microseconds, one thread runs several of them before another could wake up. If one of these jobs
        takes longer than expected, the ticker wakes the others.

        Args:
            takes: number of ready jobs that the caller takes itself, right afterwards.
        """
        self._idle.release_lead()
        prefetched = self._state.prefetched
        ready = len(prefetched.ready)
        if ready > takes or (ready and self._state.unacknowledged.stuck):
            self._wake_ticker()
        if self._idle.listening and not (prefetched.rapid and ready >= MANY):
            self._idle.ring(1 + max(0, ready - takes))

    def fetch(self) -> None:
        """Wait until a thread has work: a job, or replies to report."""
        try:
            if self._state.reconciler.due:
                self.reconcile()
            result = self._next_reply()
            if result is None:
                stale = bool(self._state.unacknowledged.unsent) or not self.line.dry
                result = self.line.ack_and_claim() if stale else self.line.last
            while not result.refused and self._may_sleep() and not self._has_news():
                self._sleep(result)
                if self._may_start_at_once():
                    self._start_popped()
                    break
                result = self.line.ack_and_claim()
            self.top_up()
        except RedisFailure as error:
            if isinstance(error, RedisUnavailable) and error.ambiguous:
                self.line.doubt()
            self._note_failed(error)
            self._state.quiet.wait(outage.RETRY_SECONDS)
            return
        self._outage.over()
        if result.refused and not self._state.prefetched.ready:
            self._outage.noticed(working.refusal(result.refused))
            self._state.quiet.wait(REFUSED_SECONDS)

    def top_up(self) -> None:
        """Request more jobs while some are still ready to run."""
        self.line.collect_arrived()
        if len(self._state.prefetched.ready) <= self._state.prefetched.low:
            self.ask_ahead(1)

    def ask_ahead(self, more: int = 0) -> bool:
        """Write the next request without waiting for its reply. False if that is not possible now."""
        pops = self._wait.pops
        if self.line.full or self._state.reconciler.due or pops.waiting or pops.brought:
            return False
        self.line.ask(more)
        self._wake_ticker()
        return True

    def acknowledge(self) -> None:
        """Write acknowledgements, and leave the reply to the thread that needs its jobs."""
        self.line.collect_arrived()
        while self.line.full:
            self.line.collect()
        if not self.ask_ahead():
            self.line.ack_and_claim()

    def catch_up(self) -> None:
        """Make all comparisons that are due, write all acknowledgements, and read all replies."""
        if self._state.reconciler.due:
            self.reconcile()
        self.line.ack_and_claim(claim=False)

    def reconcile(self) -> None:
        """Compare the lists with the jobs in flight, after all replies were read and all pops called back."""
        self.line.collect_all()
        if self._wait.pops.waiting or self._wait.pops.brought:
            self.line.ack_and_claim(claim=False)
        self.line.compare()

    # --- the steps of `fetch` ---------------------------------------------------------------------

    def _next_reply(self) -> ClaimReply | None:
        """Read replies until one delivers something; None if none was pending."""
        result = None
        while self.line.under_way and (result is None or not self._has_news()):
            result = self.line.collect()
        return result

    def _has_news(self) -> bool:
        prefetched = self._state.prefetched
        return bool(prefetched.ready or prefetched.surplus or self._state.unacknowledged.answered)

    def _may_sleep(self) -> bool:
        return not (self._state.unacknowledged.unsent or self._state.quiet.is_set() or self._state.reconciler.due)

    def _sleep(self, result: ClaimReply) -> None:
        context = self._context
        # In their fixed order: in random order, each queue would eventually get its own connection.
        queues = [queue for queue in context.capsule.queues if queue not in result.paused]
        owner = self.line.owner()
        # A pop cannot notice that its owner was fenced, so it is not renewed for another identity.
        self._wait.sleep(
            owner,
            queues if context.claims_allowed() else (),
            lambda: self._may_sleep() and self.line.owner() == owner,
            # Other processes may end a pause between two reads of the controls.
            max_seconds=CHECK_SECONDS if result.paused else MAX_SLEEP_SECONDS,
        )
        self._heed_pops()

    def _heed_pops(self) -> None:
        if self._wait.lost_a_pop():
            self.line.doubt(self._wait.straggling_seconds)

    def _may_start_at_once(self) -> bool:
        """Return whether jobs from pops may start without another round trip.

        A round trip is necessary if one of their queues is or may be paused, and to call back pops that could deliver
        more jobs than the remaining threads can run (rules 15 and 17).
        """
        pops, controls = self._wait.pops, self._context.controls
        if not pops.brought or self._state.reconciler.due or not self.line.may_claim():
            return False
        if not controls.are_current or any(entry.queue in controls.paused for entry in pops.brought):
            return False
        return self._idle.count - len(pops.brought) >= len(pops.waiting)

    def _start_popped(self) -> None:
        """Make jobs from pops available to threads, each of which has an idle thread."""
        self.line.note_start()
        units = self._popped(self.line.owner(), self.line.answered_at)
        if units:
            self._state.in_flight.add(units)
            self._offer(units)

    def _take_in(self, request: Request, result: ClaimReply) -> None:
        """Make jobs available to threads: jobs from pops first, because they arrived before the claimed jobs."""
        self._heed_pops()
        now, owner = request.at, request.owner
        popped = self._popped(owner, now)
        units = popped + [UnitOfWork(queue, raw, owner, now) for queue, raw in result.claimed]
        if units:
            self._state.in_flight.add(units)
            self._offer(self._allowed(units, result.paused, request.order) if popped else units)

    def _popped(self, owner: Owner, now: float) -> list[UnitOfWork]:
        """Return the jobs that pops have moved, except jobs of a fenced identity, which other processes own."""
        entries = self._wait.pops.take()
        return [UnitOfWork(entry.queue, entry.raw, owner, now) for entry in entries if entry.owner == owner]

    def _offer(self, units: Sequence[UnitOfWork]) -> None:
        self._wait.found(units)
        self._state.prefetched.ready.extend(units)

    def _allowed(self, units: list[UnitOfWork], paused: frozenset[str], order: Sequence[str]) -> list[UnitOfWork]:
        """Return the jobs that may start now, by priority; the rest is surplus.

        This is necessary because a pop ignores pauses and more important queues.
        """
        surplus = self._state.prefetched.surplus
        surplus.extend(unit for unit in units if unit.queue in paused)
        places = {queue: place for place, queue in enumerate(order)}
        units = sorted((unit for unit in units if unit.queue not in paused), key=lambda unit: places.get(unit.queue, 0))
        room = self.line.wanted()
        surplus.extend(units[room:])
        return units[:room]

    # --- failures ---------------------------------------------------------------------------------

    def _note_failed(self, error: RedisFailure) -> None:
        self._failed_at = time.monotonic()
        self._outage.noticed(error)
