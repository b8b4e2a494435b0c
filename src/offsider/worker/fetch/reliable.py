"""The reliable fetcher: jobs move into private lists and stay there until their disposition is written.

The idle threads of the capsule take turns: one has the lead, the others follow. The fetcher has no thread of its own
except the ticker.

1. A free thread takes a prefetched job (`Prefetched`). If there is none, it joins the `IdleThreads`; one of
   them leads.
2. The `LeadingThread` makes one round trip for all threads (`Line`): it acknowledges finished jobs, and claims one job
   for each waiting thread and some more to prefetch (`PrefetchSize`). Then another thread may lead.
3. The next request is written while some prefetched jobs are still ready, so that no thread waits for its reply. For a
   distant server several requests are pending. If jobs take microseconds, one thread runs several while the others
   sleep at a bell, because waking them would take longer.
4. If a claim returns no job, the leading thread sleeps (`ServerWait`). Each wake-up leads to a round trip, unless jobs
   from pops can start without one.
5. A finished job of less than a millisecond is acknowledged with the next round trip. After a longer job, its thread
   first has the acknowledgement written (`Acknowledger`, rule 19). Neither waits while the leading thread sleeps (rule
   18).
6. While jobs stay ready or unacknowledged, the `Ticker` runs every 20 ms. It requeues jobs that have been ready for
   longer and that no idle thread is about to take, so that other processes find them, and it writes acknowledgements.
7. After a lost reply the private lists are compared with the jobs in flight (`Reconciler`) before the next claim.

Locks and permissions:

| thread | has | may |
| --- | --- | --- |
| any thread | nothing | take a prefetched job; add a finished one; settle a failed job, by its own script |
| any thread, the ticker | the turn | acknowledge, but not read replies of pending requests |
| the leading thread | the lead | sleep at the server, call pops back |
| the leading thread | the lead and the turn | claim, read replies, compare |
| any thread | no lock | report, and requeue a surplus |

Invariants (rules of docs/internals/decisions.md in brackets):

1. A job leaves the prefetched jobs by one atomic pop.
2. The jobs in flight are a superset of the jobs in the private lists that this process knows (8).
3. Only the leading thread claims, and only with the turn.
4. A job from a pop starts at once only if the idle threads outnumber the waiting pops (15).
5. After a job of at least a millisecond, a thread takes its next job when the acknowledgement was written. While one
   cannot be written, no thread takes a job (19).
6. No wake-up is lost: a thread increments the count of waiting threads before it checks for work, and the waker reads
   the count after it has acted.

A failure of Redis is reported once; the leading thread then retries once a second until the server is back.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure
from offsider.core.wording import counted
from offsider.storage import working
from offsider.storage.effects import are_urgent
from offsider.worker import outage
from offsider.worker.disposition import Disposition, Done
from offsider.worker.fetch.acknowledger import Acknowledger
from offsider.worker.fetch.fetcher import Fetcher, FetcherContext
from offsider.worker.fetch.immediate import ImmediateWrites
from offsider.worker.fetch.leading_thread import LeadingThread
from offsider.worker.fetch.prefetched import take_all
from offsider.worker.fetch.requests import MERGED_BELOW_SECONDS
from offsider.worker.fetch.server_wait import WaitStrategy
from offsider.worker.fetch.state import FetcherState
from offsider.worker.fetch.ticker import Ticker
from offsider.worker.fetch.unacknowledged import Finished

if TYPE_CHECKING:
    from offsider.worker.unit_of_work import UnitOfWork

logger = logging.getLogger("offsider")

#: How long `close` waits for a pending tick; the server may be unavailable.
LAST_TICK_SECONDS = 0.2


class ReliableFetcher(Fetcher):
    """Fetches for one capsule. See the module docstring for the algorithm."""

    def __init__(self, context: FetcherContext) -> None:
        self._context = context
        self._merged_below = MERGED_BELOW_SECONDS if context.config.worker.ack == "merged" else 0.0
        self._state = state = FetcherState.of(context)
        self._prefetched = state.prefetched
        self._unacknowledged = state.unacknowledged
        self._idle = state.idle
        self._wait = state.wait
        self._leading = LeadingThread(context, state, self._wake_ticker)
        self._line = self._leading.line
        self._immediate = ImmediateWrites(context, state, self._line.doubt)
        self._acknowledger = Acknowledger(context, state, self._leading, self._immediate)
        self._ticker = Ticker(context, state, self._leading, self._immediate, self._acknowledger)

    # --- the interface ----------------------------------------------------------------------------

    def retrieve(self) -> UnitOfWork | None:
        """Wait for the next job. None once the fetcher is quiet."""
        prefetched = self._prefetched
        ready = prefetched.ready
        if ready and not self._state.quiet.is_set() and not self._unacknowledged.stuck:
            if len(ready) <= prefetched.low and self._idle.try_lead():
                try:
                    self._leading.attempt(self._leading.top_up)
                finally:
                    self._leading.pass_lead(takes=1)
            try:  # `suppress` takes a tenth of the time of a no-op's fetch
                return ready.popleft()
            except IndexError:  # another thread was faster
                pass
        return self._wait_for_job()

    def settle(self, unit: UnitOfWork, disposition: Disposition) -> None:
        """Write where the job goes. The acknowledgement of a finished job may be sent together with others."""
        if type(disposition) is Done and disposition.died is None and unit.run is not None:
            finished = Finished(unit, disposition)
            self._unacknowledged.unsent.append(finished)
            urgent = disposition.effects and are_urgent(disposition.effects)
            if urgent or unit.run.duration_seconds >= self._merged_below:
                self._acknowledger.send_off(finished)
            elif not self._ticker.ticking:
                self._ticker.wake()
        else:
            self._immediate.settle(unit, disposition)

    def owns(self, unit: UnitOfWork) -> bool:
        """Return whether the job is still in its private list; also True if the server cannot be asked."""
        try:
            return working.owns(self._context.redis, unit.entry)
        except RedisFailure:
            return True

    def give_back(self, units: Sequence[tuple[UnitOfWork, bytes]]) -> None:
        """Requeue jobs, except jobs of a fenced identity, which other processes own."""
        if self._context.abandoned.is_set():
            self._leading.hurry()
            self._acknowledger.flush()
        self._immediate.give_back(units)

    @property
    def unstarted(self) -> int:
        """Number of jobs that were requeued before their start, because the worker is stopping."""
        return self._immediate.unstarted

    def quiet(self) -> None:
        """Stop claiming jobs, and wake threads that wait in `retrieve`."""
        self._state.quiet.set()
        self._wait.wake()
        self._idle.ring(self._idle.listening)

    def close(self) -> None:
        """Close connections, after the last thread has left."""
        self._ticker.stop()
        self._ticker.join(LAST_TICK_SECONDS)
        if self._idle.try_lead(0.1):
            self._wait.close()
            self._line.close()
            self._idle.release_lead()

    def wake(self) -> None:
        """Look for jobs now: queues were added, or `claims_allowed` has changed."""
        self._line.dry = False
        self._wait.wake()

    def rebuild(self) -> None:
        """Close all connections that are not in use, and wake the leading thread. The watchdog calls it."""
        self._wait.rebuild()
        self._line.rebuild()
        self._context.redis.close()
        self._line.doubt()

    def audit(self) -> None:
        """Start a comparison if one is due, or after two liveness beats with more jobs listed than in flight.

        Called at each liveness beat.
        """
        if self._state.reconciler.mismatch():
            self._line.doubt()
        elif self._state.reconciler.due:
            self._wait.wake()

    @property
    def claims_out(self) -> bool:
        """Whether a round trip or a pop is pending that may still deliver a job."""
        return self._line.busy or bool(self._wait.pops.waiting)

    @property
    def strategy(self) -> WaitStrategy:
        """How this capsule waits. The first access queries the server, and may raise RedisUnavailable."""
        return self._wait.strategy()

    def described_wait(self) -> str:
        """Describe how idle threads wait."""
        return self.strategy.described

    @property
    def last_look(self) -> float:
        """Time of the last reply or activity of the leading thread, in monotonic seconds."""
        return max(self._line.answered_at, self._wait.stirred)

    @property
    def hungry(self) -> int:
        """Number of threads that wait for a job."""
        return self._idle.count

    # --- threads without a job ----------------------------------------------------------------------

    def _wait_for_job(self) -> UnitOfWork | None:
        self._idle.join()
        try:
            while not self._state.quiet.is_set():
                if self._runnable():
                    unit = self._idle.take_from(self._prefetched.ready)
                    if unit is not None:
                        return unit
                if self._idle.try_lead():
                    try:
                        if not self._runnable() and not self._state.quiet.is_set():
                            self._leading.fetch()
                    finally:
                        self._leading.pass_lead(takes=1)
                    self._acknowledger.follow_up()
                else:
                    self._idle.listen(lambda: not (self._state.quiet.is_set() or self._runnable()))
        except BaseException:
            self._leave_unfed()
            raise
        self._leave_unfed()
        return None

    def _wake_ticker(self) -> None:
        self._ticker.wake()

    def _runnable(self) -> bool:
        """Return whether a job is ready and may start."""
        return bool(self._prefetched.ready) and not self._unacknowledged.stuck

    def _leave_unfed(self) -> None:
        if self._idle.leave():
            # Requeue jobs that arrived with a claim that was still pending.
            self._settle_the_rest()
        elif self._prefetched.ready:
            self._wake_ticker()

    def _settle_the_rest(self) -> None:
        """Leave no pop waiting, no finished job unacknowledged and no job ready. The last thread calls it."""
        unsent, pops = self._unacknowledged.unsent, self._wait.pops
        # Busy: another thread may have taken the acknowledgements, and returns them if its request fails.
        while unsent or self._line.busy or pops.waiting:
            self._idle.lead()
            try:
                self._leading.attempt(self._leading.catch_up)
                if not unsent:
                    # Jobs that they still deliver stay in our lists, where a sweep finds them.
                    pops.close()
            finally:
                self._leading.pass_lead()
            self._acknowledger.follow_up()
            if unsent and self._context.abandoned.wait(outage.RETRY_SECONDS):
                logger.error("%s could not be acknowledged, and will run again", counted(len(unsent), "finished job"))
                break
        self._immediate.requeue(take_all(self._prefetched.ready))
