"""The reliable fetcher: jobs move into private lists and stay there until their disposition is written.

One of the idle threads of the capsule is the leader, the others wait. The fetcher has no thread of its own
except the ticker.

1. A free thread takes a prefetched job (`Prefetched`). If there is none, it joins the `IdleThreads`; one of
   them leads.
2. The `LeadingThread` makes one round trip for all threads (`Line`): it acknowledges finished jobs, and claims one job
   for each waiting thread and some more to prefetch (`PrefetchSize`). Then another thread becomes the leader.
3. The next request is written while some prefetched jobs are still ready, so that no thread waits for its reply. For a
   distant server several requests are pending. If jobs take microseconds, one thread runs several while the others
   wait, because waking them would take longer.
4. If a claim returns no job, the leading thread sleeps (`ServerWait`). Each wake-up leads to a round trip, unless jobs
   from pops can start without one.
5. A finished job is acknowledged with the next round trip, and its thread does not wait for it; one with effects
   before its thread takes the next job, except batch members of less than 1 ms. While an acknowledgement is late, no
   job starts (rule 19).
6. While jobs stay ready or unacknowledged, the `Ticker` runs at least every 20 ms. It requeues jobs that have been
   ready for longer and that no idle thread is about to take, so that other processes find them, and it writes
   acknowledgements before they are late.
7. After a lost reply the private lists are compared with the jobs in flight (`Reconciler`) before the next claim.

Locks and permissions:

| thread | has | may |
| --- | --- | --- |
| any thread | nothing | take a prefetched job; add a finished one; settle a failed job, by its own script |
| any thread, the ticker | the lock of the line | acknowledge, but not read replies of pending requests |
| the leader | the leader lock | sleep at the server, call pops back |
| the leader | both | claim, read replies, compare |
| any thread | no lock | report, and requeue excess jobs |

Invariants (rules of docs/internals/decisions.md in brackets):

1. A job leaves the prefetched jobs by one atomic pop.
2. The jobs in flight are a superset of the jobs in the private lists that this process knows (8).
3. Only the leader claims, and only with the lock of the line.
4. A job from a pop starts at once only if an idle thread remains, which calls the other pops back (15).
5. While an acknowledgement is late or cannot be written, no thread takes a job (19).
6. No wake-up is lost: a thread increments the count of waiting threads before it checks for work, and the waker reads
   the count after it has acted.

A failure of Redis is reported once; the leading thread then retries once a second until the server is back.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure
from offsider.core.wording import counted
from offsider.runtime import outage
from offsider.runtime.service import Loop
from offsider.storage import working
from offsider.storage.effects import are_urgent
from offsider.worker.disposition import Disposition, Done
from offsider.worker.fetch.fetcher import Fetcher, FetcherContext
from offsider.worker.fetch.leading_thread import LeadingThread
from offsider.worker.fetch.state import FetcherState, Finished, take_all
from offsider.worker.fetch.writes import ImmediateWrites

if TYPE_CHECKING:
    from offsider.worker.unit_of_work import UnitOfWork

logger = logging.getLogger("offsider")

TICK_SECONDS = 0.02
#: The ticker sends an acknowledgement this long before it is late.
FLUSH_SECONDS = 0.005
#: The ticker waits this long for the leading thread, then acts without it.
HUNG_SECONDS = 1.0
#: After a job of this duration its thread writes effects, and asks a distant server for the next job.
ASK_SECONDS = 0.001
#: A job of this duration is acknowledged at once, by the ticker.
AT_ONCE_SECONDS = 0.1
#: From this number of finished jobs per second on, a thread waits for GATHER_SECONDS before it writes acknowledgements,
#: so that one request contains more of them.
MIN_GATHER_RATE = 2_000
GATHER_SECONDS = 0.0002
#: How long the end of a stop waits for a pending tick, and for the leader; the server may be unavailable.
LAST_SECONDS = 0.2


class Ticker:
    """The ticker of one capsule.

    Attributes:
        ticking: it checks at least every 20 ms; otherwise it sleeps until `wake`.
    """

    def __init__(
        self,
        context: FetcherContext,
        state: FetcherState,
        leading: LeadingThread,
        immediate: ImmediateWrites,
    ) -> None:
        self._prefetched = state.prefetched
        self._unacknowledged = state.unacknowledged
        self._idle = state.idle
        self._leading = leading
        self._line = leading.line
        self._immediate = immediate
        self._loop = Loop(f"offsider-{context.capsule.name}-ticker", self.tick, on_error=context.config.handle_error)
        self.ticking = False
        self._flush = False

    def wake(self) -> None:
        """Start ticking. The first call starts the thread."""
        if not self.ticking:
            self._loop.start()
            self.ticking = True
            self._loop.wake()

    def flush(self) -> None:
        """Have all acknowledgements sent at once."""
        self._flush = True
        self.wake()
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
        if self._idle.waiter_count and answered_at < now - TICK_SECONDS / 2:
            self._idle.notify(1 + len(self._prefetched.ready))
        if self._line.waits_since(now - TICK_SECONDS) or self._prefetched.waits_since(now - TICK_SECONDS):
            self._requeue_what_nobody_takes()
        at_once, self._flush = self._flush, False
        due = self._unacknowledged.unsent and (at_once or self._unacknowledged.seconds_left < FLUSH_SECONDS)
        if due:
            if not self._leading.flush():
                return TICK_SECONDS
            self._idle.notify(len(self._prefetched.ready))
        if self._is_busy():
            return max(FLUSH_SECONDS, min(TICK_SECONDS, self._unacknowledged.seconds_left - FLUSH_SECONDS))
        self.ticking = False
        return TICK_SECONDS if self._is_busy() else 3600.0

    def _is_busy(self) -> bool:
        """Return whether the next tick has work to check, or threads sleep without a leading thread."""
        unled = self._idle.waiter_count > 0 and not self._idle.leader.locked()
        return unled or bool(self._prefetched.ready or self._unacknowledged.unsent or self._line.under_way)

    def _requeue_what_nobody_takes(self) -> None:
        """Requeue the jobs that were claimed last, except one for each idle thread, which may be slow to wake up.

        This includes jobs of a request whose thread now runs a long job. The ticker is the leader until it is done:
        another leader would claim later jobs, which would then run before these. If the leading thread
        hangs, the ticker acts without the lock after HUNG_SECONDS.
        """
        leading = self._idle.leader.acquire(timeout=TICK_SECONDS)
        if not leading and not self._prefetched.waits_since(time.monotonic() - HUNG_SECONDS):
            return
        try:
            if leading:
                self._leading.attempt(self._line.collect_all)
            keep = 0 if self._unacknowledged.are_late else self._idle.count
            self._immediate.requeue(self._prefetched.take_last(keep))
        finally:
            if leading:
                self._leading.pass_leader()
        self._leading.report_and_requeue()


class ReliableFetcher(Fetcher):
    """Fetches for one capsule. See the module docstring for the algorithm."""

    def __init__(self, context: FetcherContext) -> None:
        self._context = context
        self._merged = context.config.worker.ack == "merged"
        self._state = state = FetcherState(context)
        self._prefetched = state.prefetched
        self._unacknowledged = state.unacknowledged
        self._idle = state.idle
        self._wait = state.wait
        self._immediate = ImmediateWrites(context, state)
        self._leading = LeadingThread(context, state, self._immediate, lambda: self._ticker.wake())  # noqa: PLW0108 - made below
        self._line = self._leading.line
        self._ticker = Ticker(context, state, self._leading, self._immediate)

    # --- the interface ----------------------------------------------------------------------------

    def retrieve(self) -> UnitOfWork | None:
        """Wait for the next job. None once the fetcher is quiet."""
        prefetched = self._prefetched
        ready = prefetched.ready
        if ready and not self._state.quiet.is_set() and not self._unacknowledged.are_late:
            if len(ready) <= prefetched.refill_at:
                self._leading.lead(self._leading.top_up, takes=1)
            try:  # `suppress` takes a tenth of the time of a no-op's fetch
                return ready.popleft()
            except IndexError:  # another thread was faster
                pass
        return self._wait_for_job()

    def settle(self, unit: UnitOfWork, disposition: Disposition) -> None:
        """Write where the job goes. The acknowledgement of a finished job is sent together with others."""
        if type(disposition) is not Done or disposition.died is not None or unit.run is None:
            self._immediate.settle(unit, disposition)
            return
        finished = Finished(unit, disposition)
        self._unacknowledged.add(finished)
        duration_seconds, effects = unit.run.duration_seconds, disposition.effects
        if not self._merged or (effects and (duration_seconds >= ASK_SECONDS or are_urgent(effects))):
            self._acknowledge(finished)
            return
        if duration_seconds >= ASK_SECONDS and self._line.claims.prefetch.far:
            self._request_ahead(finished)
        if duration_seconds >= AT_ONCE_SECONDS and finished.unsent:
            self._ticker.flush()
        elif not self._ticker.ticking:
            self._ticker.wake()

    def _acknowledge(self, finished: Finished) -> None:
        """Send an acknowledgement before its thread takes another job."""
        if self._line.claims.prefetch.per_second >= MIN_GATHER_RATE:
            time.sleep(GATHER_SECONDS)
        self._request_ahead(finished)
        self._leading.flush(finished)
        self._ticker.wake()  # it reads the reply if no thread becomes idle

    def _request_ahead(self, finished: Finished) -> None:
        """Write the next request if no other thread is the leader: the reply of a distant server takes long."""
        if not finished.unsent or self._wait.asleep:
            return

        def acknowledge() -> None:
            takes_next = self._context.takes_next()
            if takes_next:
                self._idle.join()
            try:
                self._leading.acknowledge()
            finally:
                if takes_next:
                    self._idle.leave()

        self._leading.lead(acknowledge)

    def owns(self, unit: UnitOfWork) -> bool:
        """Return whether the job is still in its private list; also True if the server cannot be asked."""
        try:
            return working.owns(self._context.redis, unit.entry)
        except RedisFailure:
            return True

    def give_back(self, units: Sequence[tuple[UnitOfWork, bytes]]) -> None:
        """Requeue jobs, except jobs of a fenced identity, which other processes own."""
        if self._context.abandoned.is_set():
            self._leading.end_backoff()
            self._leading.lead(self._leading.catch_up, timeout_seconds=LAST_SECONDS)
            unsent = len(self._unacknowledged.unsent)
            if unsent:
                logger.error("%s could not be acknowledged, and will run again", counted(unsent, "finished job"))
        self._immediate.give_back(units)

    def wait_written(self, deadline: float) -> bool:
        """Wait until the ticker has written all acknowledgements, and their jobs are reported; True if they are."""
        while not (written := self._line.is_written()) and time.monotonic() < deadline:
            self._ticker.wake()
            time.sleep(FLUSH_SECONDS)
        return written

    @property
    def unstarted(self) -> int:
        """Number of jobs that were requeued before their start, because the worker is stopping."""
        return self._immediate.unstarted

    def quiet(self) -> None:
        """Stop claiming jobs, and wake threads that wait in `retrieve`."""
        self._state.quiet.set()
        self._wait.wake()
        self._idle.notify(self._idle.waiter_count)

    def close(self) -> None:
        """Close connections, after the last thread has left."""
        self._ticker.stop()
        self._ticker.join(LAST_SECONDS)
        if self._idle.leader.acquire(timeout=LAST_SECONDS):
            self._wait.close()
            self._line.close()
            self._idle.leader.release()

    def wake(self) -> None:
        """Look for jobs now: queues were added, or `claims_allowed` has changed."""
        self._line.emptied = False
        self._wait.wake()

    def rebuild(self) -> None:
        """Close all connections that are not in use, and wake the leading thread. The watchdog calls it."""
        self._wait.rebuild()
        self._line.rebuild()
        self._context.redis.close()
        self._state.verify()

    def audit(self) -> None:
        """Start a comparison if one is due, or after two liveness beats with more jobs listed than in flight.

        Called at each liveness beat.
        """
        if self._state.reconciler.mismatch():
            self._state.verify()
        elif self._state.reconciler.due:
            self._wait.wake()

    @property
    def claims_out(self) -> bool:
        """Whether a round trip or a pop is pending that may still deliver a job."""
        return self._line.busy or bool(self._wait.pops.waiting)

    def described_wait(self) -> str:
        """Describe how idle threads wait."""
        return self._wait.strategy().value

    @property
    def last_activity_at(self) -> float:
        """Time of the last reply or activity of the leading thread, in monotonic seconds."""
        return max(self._line.answered_at, self._wait.last_activity_at)

    @property
    def idle_count(self) -> int:
        """Number of threads that wait for a job."""
        return self._idle.count

    # --- threads without a job ----------------------------------------------------------------------

    def _wait_for_job(self) -> UnitOfWork | None:
        unit: UnitOfWork | None = None
        self._idle.join()
        try:
            while not self._state.quiet.is_set():
                if self._runnable():
                    unit = self._idle.take_from(self._prefetched.ready)
                    if unit is not None:
                        return unit
                if self._idle.leader.acquire(blocking=False):
                    try:
                        if not self._runnable() and not self._state.quiet.is_set():
                            self._leading.fetch()
                    finally:
                        self._leading.pass_leader(takes=1)
                    self._idle.leave()  # an event handler may take long
                    if self._prefetched.ready and self._unacknowledged.answered:
                        self._ticker.wake()
                    try:
                        self._leading.report_and_requeue()
                    finally:
                        self._idle.join()
                else:
                    self._idle.wait(lambda: not (self._state.quiet.is_set() or self._runnable()))
            return None
        finally:
            if unit is None:
                self._leave_unfed()

    def _runnable(self) -> bool:
        """Return whether a job is ready and may start."""
        return bool(self._prefetched.ready) and not self._unacknowledged.are_late

    def _leave_unfed(self) -> None:
        if self._idle.leave():
            # Requeue jobs that arrived with a claim that was still pending.
            self._settle_the_rest()
        elif self._prefetched.ready:
            self._ticker.wake()

    def _settle_the_rest(self) -> None:
        """Leave no pop waiting, no finished job unacknowledged and no job ready. The last thread calls it."""
        unsent, pops = self._unacknowledged.unsent, self._wait.pops

        def catch_up() -> None:
            try:
                self._leading.catch_up()
            finally:
                if not unsent:
                    # Jobs that they still deliver stay in our lists, where a sweep finds them.
                    pops.close()

        # Busy: another thread may have taken the acknowledgements, and returns them if its request fails.
        while unsent or self._line.busy or pops.waiting:
            self._leading.lead(catch_up, timeout_seconds=threading.TIMEOUT_MAX)
            if unsent and self._context.abandoned.wait(outage.RETRY_SECONDS):
                break  # `give_back` logs it
        self._immediate.requeue(take_all(self._prefetched.ready))
