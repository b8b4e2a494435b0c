"""The reliable fetcher: jobs move into private lists and stay there until their disposition is written.

The threads of the capsule are one leader and its followers, and take turns as the leader. The fetcher has no thread of
its own except the ticker.

1. A free thread takes a prefetched job (`Prefetched`). If there is none, it joins the `IdleThreads`; one of
   them leads.
2. The `Leader` makes one round trip for all threads (`Line`): it acknowledges finished jobs, and claims one job for
   each waiting thread and some more to prefetch (`PrefetchSize`). Then another thread may lead.
3. The next request is written while some prefetched jobs are still ready, so that no thread waits for its reply. For a
   distant server several requests are under way. If jobs take microseconds, one thread runs several while the others
   sleep at a bell, because waking them would take longer.
4. If a claim returns no job, the leader sleeps (`ServerWait`). Each wake-up leads to a round trip, unless jobs from
   pops can start without one.
5. A finished job of less than a millisecond is acknowledged with the next round trip. After a longer job, its thread
   first has the acknowledgement written (rule 19). Neither waits for a sleeping leader (rule 18).
6. While jobs are ready or unacknowledged, the ticker runs every 20 ms. It requeues jobs that have been ready for longer
   and that no idle thread is about to take, so that other processes find them, and it writes acknowledgements.
7. After a lost reply the private lists are compared with the jobs in flight (`Reconciler`) before the next claim.

Locks and permissions:

| thread | has | may |
| --- | --- | --- |
| any thread | nothing | take a prefetched job; add a finished one; settle a failed job, by its own script |
| any thread, the ticker | the turn | acknowledge, but not read replies of requests under way |
| the leader | the lead | sleep at the server, call pops back |
| the leader | the lead and the turn | claim, read replies, compare |
| any thread | no lock | report, and requeue a surplus |

Invariants (rules of docs/internals/decisions.md in brackets):

1. A job leaves the prefetched jobs by one atomic pop.
2. The jobs in flight are a superset of the jobs in the private lists that this process knows (8).
3. Only the leader claims, and only with the turn.
4. A job from a pop starts at once only if the idle threads outnumber the waiting pops (15).
5. After a job of at least a millisecond, a thread takes its next job when the acknowledgement was written. While one
   cannot be written, no thread takes a job (19).
6. No wake-up is lost: a thread increments the count of waiting threads before it checks for work, and the waker reads
   the count after it has acted.

A failure of Redis is reported once; the leader then retries once a second until the server is back.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from offsider.core.errors import Fenced, RedisFailure
from offsider.runtime.service import Loop
from offsider.storage import quarantine, working
from offsider.storage.effects import Together
from offsider.worker import outage
from offsider.worker.disposition import Aside, Back, Dead, Disposition, Done, Elsewhere, Last, Later, Lost
from offsider.worker.fetch.fetcher import Fetcher, FetcherContext, Settled
from offsider.worker.fetch.idle_threads import IdleThreads
from offsider.worker.fetch.in_flight import InFlight
from offsider.worker.fetch.leader import Leader
from offsider.worker.fetch.line import MANY, MERGED_BELOW_SECONDS, Books
from offsider.worker.fetch.prefetched import Prefetched, take_all
from offsider.worker.fetch.reconcile import Reconciler
from offsider.worker.fetch.server_wait import ServerWait, WaitStrategy
from offsider.worker.fetch.unacknowledged import Finished, Unacknowledged
from offsider.worker.fetch.writes import Writes
from offsider.worker.requeued import RequeueLog

if TYPE_CHECKING:
    from offsider.storage.working import Entry
    from offsider.worker.unit_of_work import UnitOfWork

logger = logging.getLogger("offsider")

TICK_SECONDS = 0.02
#: The ticker waits this long for the leader, then acts without it.
HUNG_SECONDS = 1.0
#: How long `close` waits for a tick that is under way; the server may be unavailable.
LAST_TICK_SECONDS = 0.2
#: From this number of finished jobs per second on, a thread waits for GATHER_SECONDS before it writes acknowledgements,
#: so that one request contains more of them.
CROWDED = 2_000
GATHER_SECONDS = 0.0002
#: How long a thread waits for the leader to write its acknowledgement.
AWAIT_LEADER_SECONDS = 0.005


class ReliableFetcher(Fetcher):
    """Fetches for one capsule. See the module docstring for the algorithm."""

    def __init__(self, context: FetcherContext) -> None:
        config, capsule = context.config, context.capsule
        self._context = context
        self._redis = context.redis
        self._writes = Writes(context)
        self._merged_below = MERGED_BELOW_SECONDS if config.worker.ack == "merged" else 0.0
        self._wait = ServerWait(context.redis, config.worker.liveness_seconds)
        self._idle = IdleThreads()
        self._in_flight = in_flight = InFlight()
        self._prefetched = Prefetched()
        self._unacknowledged = Unacknowledged(in_flight, context.report)
        self._reconciler = Reconciler(context, in_flight)
        books = Books(in_flight, self._prefetched, self._unacknowledged, self._reconciler)
        self._quiet = books.quiet
        self._leader = Leader(context, self._wait, books, self._idle, self._wake_ticker)
        self._line = self._leader.line
        self._ticker = Loop(f"offsider-{capsule.name}-ticker", self.tick, on_error=config.handle_error)
        self._ticking = False
        #: Jobs that were requeued before their start, because the worker is stopping.
        self.unstarted = 0

    # --- the interface ----------------------------------------------------------------------------

    def retrieve(self) -> UnitOfWork | None:
        """Wait for the next job. None once the fetcher is quiet."""
        prefetched = self._prefetched
        ready = prefetched.ready
        if ready and not self._quiet.is_set() and not self._unacknowledged.stuck:
            if len(ready) <= prefetched.low and self._idle.try_lead():
                with self._passing_lead():
                    self._leader.attempt(self._leader.top_up)
            try:  # `suppress` takes a tenth of the time of a no-op's fetch
                return ready.popleft()
            except IndexError:  # another thread was faster
                pass
        return self._line_up()

    def settle(self, unit: UnitOfWork, disposition: Disposition) -> None:
        """Write where the job goes. The acknowledgement of a finished job may be sent together with others."""
        if type(disposition) is Done and disposition.died is None and unit.run is not None:
            finished = Finished(unit, disposition)
            self._unacknowledged.unsent.append(finished)
            # Effects are not delayed: another job may need the slot that one of them frees.
            if disposition.effects or unit.run.duration_seconds >= self._merged_below:
                self._send_off(finished)
            elif not self._ticking:
                self._wake_ticker()
        elif isinstance(disposition, (Elsewhere, Lost)):
            self._release(unit)
            replies = self._writes.effects(self._redis, disposition.effects)
            self._context.report([Settled(unit, disposition, lost=isinstance(disposition, Lost), replies=replies)])
        else:
            self._settle_now(unit, disposition)

    def owns(self, unit: UnitOfWork) -> bool:
        """Return whether the job is still in its private list; also True if the server cannot be asked."""
        try:
            return working.owns(self._redis, unit.entry)
        except RedisFailure:
            return True

    def give_back(self, units: Sequence[tuple[UnitOfWork, bytes]]) -> None:
        """Requeue jobs, except those of a fenced identity, which other processes own."""
        if self._context.abandoned.is_set():
            self._leader.hurry()
            self.flush()
        by_identity: dict[str, list[tuple[UnitOfWork, bytes]]] = {}
        for unit, payload in units:
            by_identity.setdefault(unit.entry.owner.identity, []).append((unit, payload))
        for owned in by_identity.values():
            self._put_back(owned)

    def quiet(self) -> None:
        """Stop claiming jobs, and wake threads that wait in `retrieve`."""
        self._quiet.set()
        self._wait.wake()
        self._idle.ring(self._idle.listening)

    def close(self) -> None:
        """Close connections, after the last thread has left."""
        self._ticker.stop()
        self._ticker.join(LAST_TICK_SECONDS)
        if self._idle.try_lead(0.1):
            self._wait.close()
            self._line.close()
            self._idle.pass_lead()

    def wake(self) -> None:
        """Look for jobs now: queues were added, or `claims_allowed` has changed."""
        self._line.dry = False
        self._wait.wake()

    def rebuild(self) -> None:
        """Close all connections that are not in use, and wake the leader. The watchdog calls it."""
        self._wait.rebuild()
        self._line.rebuild()
        self._redis.close()
        self._line.doubt()

    def audit(self) -> None:
        """Start a comparison if one is due, or after two beats with more jobs listed than in flight.

        Called at each beat.
        """
        if self._reconciler.mismatch():
            self._line.doubt()
        elif self._reconciler.due:
            self._wait.wake()

    @property
    def claims_out(self) -> bool:
        """Whether a round trip or a pop is under way that may still deliver a job."""
        return self._line.busy or bool(self._wait.pops.waiting)

    @property
    def strategy(self) -> WaitStrategy:
        """How this capsule waits. The first access asks the server, and may raise RedisUnavailable."""
        return self._wait.strategy()

    def described_wait(self) -> str:
        """Describe how idle threads wait."""
        return self.strategy.described

    @property
    def last_look(self) -> float:
        """Time of the last reply or activity of the leader, in monotonic seconds."""
        return max(self._line.answered_at, self._wait.stirred)

    @property
    def hungry(self) -> int:
        """Number of threads that wait for a job."""
        return self._idle.count

    # --- threads without a job ----------------------------------------------------------------------

    def _line_up(self) -> UnitOfWork | None:
        self._idle.join()
        try:
            while not self._quiet.is_set():
                if self._runnable():
                    unit = self._idle.take_from(self._prefetched.ready)
                    if unit is not None:
                        return unit
                if self._idle.try_lead():
                    with self._passing_lead():
                        if not self._runnable() and not self._quiet.is_set():
                            self._leader.fetch()
                    self._follow_up()
                else:
                    self._idle.listen(lambda: not (self._quiet.is_set() or self._runnable()))
        except BaseException:
            self._leave_unfed()
            raise
        self._leave_unfed()
        return None

    def _runnable(self) -> bool:
        """Return whether a job is ready and may start."""
        return bool(self._prefetched.ready) and not self._unacknowledged.stuck

    @contextmanager
    def _passing_lead(self) -> Generator[None]:
        """Pass the lead on at the end of the block; the caller has the lead."""
        try:
            yield
        finally:
            self._idle.pass_lead(self._to_wake)

    def _to_wake(self) -> int:
        """Return the number of sleepers to wake: one to lead, and one for each job that is ready.

        If jobs take microseconds, one thread runs several of them before another could wake up. If one of these jobs
        takes longer than expected, the ticker wakes the others.
        """
        ready = len(self._prefetched.ready)
        return 0 if self._prefetched.rapid and ready >= MANY else 1 + ready

    def _leave_unfed(self) -> None:
        if self._idle.leave():
            # Requeue jobs that arrived with a claim that was still under way.
            self._settle_the_rest()

    def _settle_the_rest(self) -> None:
        """Leave no pop waiting, no finished job unacknowledged and no job ready. The last thread calls it."""
        unsent, pops = self._unacknowledged.unsent, self._wait.pops
        # Busy: another thread may have taken the acknowledgements, and returns them if its request fails.
        while unsent or self._line.busy or pops.waiting:
            self._idle.lead()
            with self._passing_lead():
                self._leader.attempt(self._leader.catch_up)
                if not unsent:
                    # Jobs that they still deliver stay in our lists, where a sweep finds them.
                    pops.close()
            self._follow_up()
            if unsent and self._context.abandoned.wait(outage.RETRY_SECONDS):
                logger.error("%d finished jobs could not be acknowledged: they will run again", len(unsent))
                break
        self._requeue(take_all(self._prefetched.ready))

    # --- acknowledging ------------------------------------------------------------------------------

    def _send_off(self, finished: Finished) -> None:
        """Have an acknowledgement written before its thread starts another job."""
        if not self._wait.asleep:
            with self._idle.joined() if self._context.takes_next() else nullcontext():
                self._wait_until_sent(finished)
        if not finished.sent and not self.flush():
            # The next leader writes it; until then no thread starts a job.
            self._line.dry, self._unacknowledged.stuck = False, True
            self._wait.wake()
        self._follow_up()

    def _wait_until_sent(self, finished: Finished) -> None:
        finished.waiter = waiter = threading.Lock()
        waiter.acquire()
        while not (finished.sent or self._unacknowledged.stuck or self._reconciler.due or self._wait.asleep):
            if self._idle.try_lead():
                self._lead_for(finished)
            else:
                # The leader writes the acknowledgement, or wakes this thread to lead.
                waiter.acquire(timeout=AWAIT_LEADER_SECONDS)

    def _lead_for(self, finished: Finished) -> None:
        with self._passing_lead():
            if not finished.sent:
                if self._line.prefetch.per_second >= CROWDED:
                    time.sleep(GATHER_SECONDS)
                self._leader.attempt(self._leader.acknowledge)
        self._unacknowledged.wake_oldest()

    def flush(self) -> bool:
        """Acknowledge finished jobs without claiming.

        Returns:
            False if that was not possible: a comparison is due, or a request has just failed.
        """
        if self._reconciler.due or self._leader.resting:
            return False
        written = not self._unacknowledged.unsent or self._leader.attempt(
            lambda: self._line.ack_and_claim(claim=False, leading=False)
        )
        self._follow_up()
        return written

    def _follow_up(self) -> None:
        """Report finished jobs and requeue a surplus after a round trip; the caller has no lock."""
        self._unacknowledged.report()
        if self._prefetched.surplus:
            self._requeue(take_all(self._prefetched.surplus))

    # --- dispositions that are written at once --------------------------------------------------------

    def _settle_now(self, unit: UnitOfWork, disposition: Disposition) -> None:
        redis = Together(self._redis, disposition.effects)
        written = self._writes.until_taken(
            unit, lambda: self._write(redis, unit.entry, disposition), lambda: self._was_written(unit)
        )
        if written is not None:
            self._release(unit)
            self._context.report([Settled(unit, disposition, lost=not written, replies=redis.replies)])

    def _write(self, redis: Together, entry: Entry, disposition: Disposition) -> bool:  # noqa: PLR0911 - one for each
        """Write a disposition by one script; False if the entry is gone."""
        config = self._context.config
        worker = config.worker
        match disposition:
            case Back(payload):
                return working.put_back(redis, [(entry, payload)])[0]
            case Last():
                return working.put_last(redis, entry)
            case Later(where, payload, delay_seconds):
                sorted_set = redis.keys.retry if where == "retry" else redis.keys.schedule
                return working.postpone(redis, entry, sorted_set, payload, delay_seconds)
            case Dead(payload):
                return working.bury(redis, entry, payload, worker.dead_set_limits)
            case Aside(reason):
                days, most, now = worker.quarantine_days, worker.quarantine_max_jobs, config.clock.now()
                return quarantine.put_from_run(redis, entry, days=days, most=most, at=now, how=reason)
            case Done():
                return working.acknowledge(redis, entry)
            case Elsewhere() | Lost():
                return True

    def _was_written(self, unit: UnitOfWork) -> bool:
        """Return whether the server executed a settlement whose reply was lost.

        It did not if the list contains as many equal copies as are in flight here: then none was removed (rule 5).
        """
        entry = unit.entry
        return working.copies(self._redis, entry) < self._in_flight.copies(entry)

    def _release(self, unit: UnitOfWork) -> None:
        unit.settled = True
        self._in_flight.remove((unit,))

    # --- requeueing -----------------------------------------------------------------------------------

    def _put_back(self, units: Sequence[tuple[UnitOfWork, bytes]]) -> None:
        try:
            with suppress(Fenced):
                working.put_back(self._redis, [(unit.entry, payload) for unit, payload in units])
        except RedisFailure:
            # Some may not have been requeued: the next comparison finds them.
            self._line.doubt()
            raise
        for unit, _ in units:
            self._release(unit)

    def _requeue(self, units: Sequence[UnitOfWork]) -> None:
        """Requeue jobs that have not started; ``units`` has the oldest first."""
        if units:
            try:
                # Requeue the newest first, so that the oldest is at the head in the end.
                self.give_back([(unit, unit.raw) for unit in reversed(units)])
                if self._quiet.is_set():
                    self.unstarted += len(units)
                    log = RequeueLog("the worker stopped before the job started", logging.INFO)
                    for unit in units:
                        log.add(unit.raw, unit.queue)
            except RedisFailure as error:
                # No thread has them now. The comparison finds those that are still in our lists.
                self._in_flight.remove(units)
                self._context.config.handle_error(error, {"context": "requeueing jobs that had not started"})

    # --- the ticker -----------------------------------------------------------------------------------

    def _wake_ticker(self) -> None:
        if not self._ticking:
            self._ticking = True
            self._ticker.start()
            self._ticker.wake()

    def tick(self) -> float:
        """Requeue jobs that wait too long for a thread, and write acknowledgements that are still unsent."""
        now = time.monotonic()
        answered_at = self._line.answered_at
        if self._idle.listening and answered_at < now - TICK_SECONDS / 2:
            self._idle.ring(1 + len(self._prefetched.ready))
        if self._line.waits_since(now - TICK_SECONDS) or self._prefetched.waits_since(now - TICK_SECONDS):
            self._requeue_what_nobody_takes()
        if self._unacknowledged.unsent and answered_at < now - TICK_SECONDS:
            self.flush()
        if self._is_busy():
            return TICK_SECONDS
        self._ticking = False
        return TICK_SECONDS if self._is_busy() else 3600.0

    def _is_busy(self) -> bool:
        """Return whether the next tick has work to check, or threads sleep without a leader."""
        unled = self._idle.listening > 0 and not self._idle.led
        return unled or bool(self._prefetched.ready or self._unacknowledged.unsent or self._line.under_way)

    def _requeue_what_nobody_takes(self) -> None:
        """Requeue the jobs that were claimed last, except one for each idle thread, which may be slow to wake up.

        This includes jobs of a request whose thread now runs a long job. The ticker takes the lead until it is done:
        another leader would claim later jobs, which would then run before these. If the leader hangs, the ticker acts
        without the lead after HUNG_SECONDS.
        """
        leading = self._idle.try_lead(TICK_SECONDS)
        if not leading and not self._prefetched.waits_since(time.monotonic() - HUNG_SECONDS):
            return
        try:
            if leading:
                self._leader.attempt(self._line.collect_all)
            self._requeue(self._prefetched.take_last(0 if self._unacknowledged.stuck else self._idle.count))
        finally:
            if leading:
                self._idle.pass_lead(self._to_wake)
        self._follow_up()
