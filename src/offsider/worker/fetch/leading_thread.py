"""The work of the leader thread: claim jobs for all threads, wait for the server, and distribute the jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure, RedisUnavailable
from offsider.runtime import outage
from offsider.runtime.outage import Outage
from offsider.storage import working
from offsider.worker.fetch.line import MIN_AHEAD, Line, Request
from offsider.worker.fetch.server_wait import CHECK_SECONDS, MAX_SLEEP_SECONDS
from offsider.worker.fetch.state import take_all
from offsider.worker.unit_of_work import UnitOfWork

if TYPE_CHECKING:
    from offsider.storage.working import ClaimReply, Owner
    from offsider.worker.fetch.fetcher import FetcherContext
    from offsider.worker.fetch.state import FetcherState, Finished
    from offsider.worker.fetch.writes import ImmediateWrites

REFUSED_SECONDS = 0.05


class LeadingThread:
    """The steps of the leader. Other threads may use `attempt`, `lead`, `flush`, `report_and_requeue` and the back-off.

    Args:
        wake_ticker: called if jobs remain that the caller does not take itself, and after a request was written.

    Attributes:
        line: its round trips.
    """

    def __init__(
        self,
        context: FetcherContext,
        state: FetcherState,
        immediate: ImmediateWrites,
        wake_ticker: Callable[[], None],
    ) -> None:
        self._context = context
        self._state = state
        self._immediate = immediate
        self._wait = state.wait
        self._idle = state.idle
        self._wake_ticker = wake_ticker
        self._outage = Outage(f"fetcher of capsule {context.capsule.name}", context.config)
        self.line = Line(context, state, self._receive)
        self._failed_at = -outage.RETRY_SECONDS

    @property
    def in_backoff(self) -> bool:
        """Whether a request has just failed, so that only the leading thread retries."""
        recent = time.monotonic() < self._failed_at + outage.RETRY_SECONDS
        return recent and self.line.answered_at <= self._failed_at

    def end_backoff(self) -> None:
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

    def pass_leader(self, takes: int = 0) -> None:
        """Release the leader lock, and wake as many waiters as there is work for: one to lead, one for each ready job.

        If jobs take microseconds, one thread runs several of them before another could wake up. If one of these jobs
        takes longer than expected, the ticker wakes the others.

        Args:
            takes: number of ready jobs that the caller takes itself, right afterwards.
        """
        self._idle.leader.release()
        prefetched = self._state.prefetched
        ready = len(prefetched.ready)
        if ready > takes or (ready and self._state.unacknowledged.are_late):
            self._wake_ticker()
        if self._idle.waiter_count and not (prefetched.short_jobs and ready >= MIN_AHEAD):
            self._idle.notify(1 + max(0, ready - takes))

    def fetch(self) -> None:
        """Wait until a thread has work: a job, or replies to report."""
        try:
            if self._state.reconciler.due:
                self.reconcile()
            while self.line.under_way and not self._has_news():
                self.line.collect()
            unacknowledged = self._state.unacknowledged
            stale = not self._has_news() and (unacknowledged.unsent or not self.line.emptied)
            if stale or unacknowledged.are_late:
                self.line.ack_and_claim()
            while not self.line.last.refused and self._may_sleep() and not self._has_news():
                self._sleep(self.line.last)
                if self._may_start_at_once():
                    self._start_popped()
                    break
                self.line.ack_and_claim()
            self.top_up()
        except RedisFailure as error:
            if isinstance(error, RedisUnavailable) and error.ambiguous:
                self._state.verify()
            self._note_failed(error)
            self._state.quiet.wait(outage.RETRY_SECONDS)
            return
        self._outage.over()
        if (refused := self.line.last.refused) and not self._has_news():
            self._outage.noticed(working.refusal(refused))
            self._state.quiet.wait(REFUSED_SECONDS)

    def top_up(self) -> None:
        """Request more jobs while some are still ready to run."""
        self.line.collect_all(wait=False)
        if len(self._state.prefetched.ready) <= self._state.prefetched.refill_at:
            self.ask_ahead()

    def ask_ahead(self) -> bool:
        """Write the next request without waiting for its reply. False if that is not possible now."""
        pops = self._wait.pops
        if self.line.full or self._state.reconciler.due or pops.waiting or pops.brought:
            return False
        self.line.ask()
        self._wake_ticker()
        return True

    def acknowledge(self) -> None:
        """Write acknowledgements, and leave the reply to the thread that needs its jobs."""
        self.line.collect_all(wait=False)
        while self.line.full:
            self.line.collect()
        if not self.ask_ahead():
            self.line.ack_and_claim()

    def flush(self, finished: Finished | None = None) -> bool:
        """Acknowledge finished jobs without claiming; see `Line.acknowledge`. False if that was not possible."""
        if self.in_backoff:
            written = not (self._state.unacknowledged.unsent if finished is None else finished.unsent)
        elif self._state.reconciler.due:
            written = self.lead(self.catch_up)
        else:
            written = self.attempt(lambda: self.line.acknowledge(finished)) and not (finished and finished.unsent)
        if not written:
            # The next leading thread writes it; until then no thread starts a job.
            self.line.emptied, self._state.unacknowledged.failed = False, True
            self._wait.wake()
        self.report_and_requeue()
        return written

    def lead(self, step: Callable[[], object], *, timeout_seconds: float = 0.0, takes: int = 0) -> bool:
        """Make a request as the leader, if no other thread is, and report; False if that was not possible."""
        if not self._idle.leader.acquire(timeout=timeout_seconds):
            return False
        try:
            succeeded = self.attempt(step)
        finally:
            self.pass_leader(takes)
        self.report_and_requeue()
        return succeeded

    def report_and_requeue(self) -> None:
        """Report finished jobs and requeue excess jobs after a round trip; the caller has no lock."""
        self._state.unacknowledged.report()
        if self._state.prefetched.excess:
            self._immediate.requeue(take_all(self._state.prefetched.excess))

    def catch_up(self) -> None:
        """Make all comparisons that are due, write all acknowledgements, and read all replies."""
        while True:
            if self._state.reconciler.due:
                self.reconcile()
            self.line.ack_and_claim(claim=False)
            if not self._state.unacknowledged.unsent:  # one request contains up to `MAX_FINISHED`
                return

    def reconcile(self) -> None:
        """Compare the lists with the jobs in flight, after all replies were read and all pops called back."""
        self.line.collect_all()
        if self._wait.pops.waiting or self._wait.pops.brought:
            self.line.ack_and_claim(claim=False)
        self.line.compare()

    # --- the steps of `fetch` ---------------------------------------------------------------------

    def _has_news(self) -> bool:
        prefetched = self._state.prefetched
        return bool(prefetched.ready or prefetched.excess or self._state.unacknowledged.answered)

    def _may_sleep(self) -> bool:
        state = self._state
        return not (state.unacknowledged.unsent or self.line.under_way or state.quiet.is_set() or state.reconciler.due)

    def _sleep(self, result: ClaimReply) -> None:
        # In their fixed order: in random order, each queue would eventually get its own connection.
        queues = [queue for queue in self._context.capsule.queues if queue not in result.paused]
        owner = self._context.owner
        # A pop cannot notice that its owner was fenced, so it is not renewed for another identity.
        self._wait.sleep(
            owner,
            queues if self._context.claims_allowed() else (),
            lambda: self._may_sleep() and self._context.owner == owner,
            # Other processes may end a pause between two reads of the controls.
            max_seconds=CHECK_SECONDS if result.paused else MAX_SLEEP_SECONDS,
        )
        self._verify_after_lost_pops()

    def _verify_after_lost_pops(self) -> None:
        if self._wait.lost_a_pop():
            self._state.verify(self._wait.lost_pop_seconds)

    def _may_start_at_once(self) -> bool:
        """Return whether jobs from pops may start without another round trip.

        A round trip is necessary if one of their queues is or may be paused, and if no thread would remain that calls
        the other pops back (rules 15 and 17).
        """
        pops, controls = self._wait.pops, self._context.controls
        if not pops.brought or self._state.reconciler.due or not self.line.may_claim():
            return False
        if not controls.are_current or any(entry.queue in controls.paused for entry in pops.brought):
            return False
        return self._idle.count - len(pops.brought) >= min(len(pops.waiting), 1)

    def _start_popped(self) -> None:
        """Make jobs from pops available to threads, each of which has an idle thread."""
        self.line.note_start()
        units = self._popped(self._context.owner, self.line.answered_at)
        if units:
            self._state.in_flight.add(units)
            self._context.count_claimed(units)
            self._offer(units)

    def _receive(self, request: Request, result: ClaimReply) -> None:
        """Make jobs available to threads: jobs from pops first, because they arrived before the claimed jobs."""
        self._verify_after_lost_pops()
        now, owner = request.at, request.owner
        popped = self._popped(owner, now)
        units = popped + [UnitOfWork(queue, raw, owner, now) for queue, raw in result.claimed]
        if units:
            self._state.in_flight.add(units)
            self._context.count_claimed(units)
            if popped:
                units, excess = _divided(units, result.paused, request.order, self.line.wanted())
                self._state.prefetched.excess.extend(excess)
            self._offer(units)

    def _popped(self, owner: Owner, now: float) -> list[UnitOfWork]:
        """Return the jobs that pops have moved, except jobs of a fenced identity, which other processes own."""
        entries = self._wait.pops.take()
        return [UnitOfWork(entry.queue, entry.raw, owner, now) for entry in entries if entry.owner == owner]

    def _offer(self, units: Sequence[UnitOfWork]) -> None:
        self._wait.found(units)
        self._state.prefetched.ready.extend(units)

    # --- failures ---------------------------------------------------------------------------------

    def _note_failed(self, error: RedisFailure) -> None:
        self._failed_at = time.monotonic()
        self._outage.noticed(error)


def _divided(
    units: list[UnitOfWork], paused: frozenset[str], order: Sequence[str], room: int
) -> tuple[list[UnitOfWork], list[UnitOfWork]]:
    """Return the jobs that may start now, by priority, and the excess.

    This is necessary because a pop ignores pauses and more important queues.
    """
    excess = [unit for unit in units if unit.queue in paused]
    places = {queue: place for place, queue in enumerate(order)}
    units = sorted((unit for unit in units if unit.queue not in paused), key=lambda unit: places.get(unit.queue, 0))
    return units[:room], excess + units[room:]
