"""The state that the objects of one fetcher share: claimed, ready and finished jobs, idle threads, comparisons.

A comparison finds out what a lost reply has changed (rules 5 and 8). "Listed" jobs are in the private lists; "held"
jobs are in flight, by the fetcher's own record.

1. `FetcherState.verify` schedules a comparison, and a second one after the server can no longer serve the lost
   connection.
2. `Reconciler.run` compares the payloads. Equal counts would prove nothing: a lost reply can add a listed job while
   another job is already settled at the server and still held here.
3. An acknowledgement without a reply was executed if fewer equal copies are listed than held.
4. A job that is listed but not held is requeued, without a strike, because no process died.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from offsider.core.errors import Fenced, RedisRefused
from offsider.core.wording import counted
from offsider.storage import owners, working
from offsider.storage.owners import Lists
from offsider.worker.fetch.fetcher import Settled
from offsider.worker.fetch.server_wait import ServerWait

if TYPE_CHECKING:
    from offsider.storage.working import Owner, PrivateListEntry
    from offsider.worker.fetch.fetcher import FetcherContext
    from offsider.worker.unit_of_work import UnitOfWork
logger = logging.getLogger("offsider")

#: Acknowledgements in one script.
MAX_FINISHED = 500
#: An acknowledgement is sent within this time. While one is late, no job starts (rule 19).
MAX_ACK_SECONDS = 0.02
#: Maximum wait, in case a wake-up is ever missed.
MAX_WAIT_SECONDS = 5.0
#: Number of consecutive beats with more jobs listed than held that triggers a comparison.
MISMATCHES = 2
#: Interval of the counts while nothing is in flight: lost replies are found by `verify`, not by them.
IDLE_SECONDS = 60.0
#: Delay of the second comparison: the server may still execute a command of a connection that was closed here.
SECOND_CHECK_SECONDS = 7.0


class InFlight:
    """Claimed units whose disposition is not written yet.

    Two byte-equal payloads are two units. Adding and removing happen for every job, so each is a single set operation;
    entries are created only for a comparison.
    """

    def __init__(self) -> None:
        self._units: set[UnitOfWork] = set()

    def __len__(self) -> int:
        return len(self._units)

    def add(self, units: Iterable[UnitOfWork]) -> None:
        self._units.update(units)

    def remove(self, units: Iterable[UnitOfWork]) -> None:
        self._units.difference_update(units)

    def copies(self, entry: PrivateListEntry) -> int:
        """Return the number of units with these bytes."""
        return sum(1 for unit in self._units.copy() if unit.entry == entry)

    def of(self, identity: str) -> Counter[PrivateListEntry]:
        """Return the entries that were claimed under one identity."""
        entries = (unit.entry for unit in self._units.copy())
        return Counter(entry for entry in entries if entry.owner.identity == identity)


class Prefetched:
    """The prefetched jobs of one capsule.

    Attributes:
        ready: the jobs in the order of their runs. A job is removed only by one atomic pop.
        excess: jobs that must not run here, for example of a queue that was paused after the pop started. A thread
            without locks requeues them.
        refill_at: when this number of jobs remains, a thread sends the next request before it takes one; -1 for never.
        short_jobs: jobs take so little time that one thread runs several of them before another thread wakes up.
    """

    def __init__(self) -> None:
        self.ready: deque[UnitOfWork] = deque()
        self.excess: deque[UnitOfWork] = deque()
        self.refill_at = -1
        self.short_jobs = False

    def waits_since(self, moment: float) -> bool:
        """Return whether the next job was claimed before this moment, in monotonic seconds."""
        try:
            return self.ready[0].claimed_at < moment
        except IndexError:
            return False

    def take_last(self, keep: int) -> list[UnitOfWork]:
        """Take the jobs that were claimed last, except for ``keep`` older ones; oldest first."""
        taken: list[UnitOfWork] = []
        with suppress(IndexError):
            while len(self.ready) > keep:
                taken.append(self.ready.pop())
        return taken[::-1]

    def take_of(self, owner: Owner) -> list[UnitOfWork]:
        """Take all jobs of this owner; jobs of other owners stay."""
        taken = take_all(self.ready)
        self.ready.extend(unit for unit in taken if unit.owner != owner)
        return [unit for unit in taken if unit.owner == owner]


def take_all(units: deque[UnitOfWork]) -> list[UnitOfWork]:
    taken: list[UnitOfWork] = []
    with suppress(IndexError):
        while True:
            taken.append(units.popleft())
    return taken


class Finished(Settled):
    """A finished job whose acknowledgement has no reply yet.

    Attributes:
        ended_at: when it was settled, by the clock of `Unacknowledged`.
        unsent: no request contains its acknowledgement.
        ambiguous: the acknowledgement was written, and the reply was lost.
    """

    ended_at = 0.0
    unsent = True
    ambiguous = False


class Unacknowledged:
    """The finished jobs of one capsule, oldest first.

    Any thread appends to ``unsent``. A thread that has the lock of the `Line` takes jobs, and then confirms or keeps
    them. Each of these is an atomic deque operation, so there is no lock.

    Args:
        in_flight: confirmed jobs are removed from it.
        report: called with confirmed jobs, by a thread without locks.
        clock: returns monotonic seconds.

    Attributes:
        unsent: acknowledgements to write.
        answered: confirmed jobs that `report` has not reported yet.
        failed: the last request with acknowledgements failed.
        round_trip_seconds: to the server.
    """

    def __init__(
        self,
        in_flight: InFlight,
        report: Callable[[Sequence[Settled]], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._in_flight = in_flight
        self._report = report
        self.clock = clock
        self.unsent: deque[Finished] = deque()
        #: The jobs of each request without a reply.
        self._asked: deque[Sequence[Finished]] = deque()
        self.answered: deque[Sequence[Finished]] = deque()
        #: One element for each thread that reports.
        self._reporting: deque[None] = deque()
        self.failed = False
        self.round_trip_seconds = 0.0

    def add(self, finished: Finished) -> None:
        finished.ended_at = self.clock()
        self.unsent.append(finished)

    @property
    def are_late(self) -> bool:
        """Whether an acknowledgement is late, so that no job may start. A reply may take twice as long."""
        if self.failed:
            return True
        limit = self.clock() - MAX_ACK_SECONDS - self.round_trip_seconds
        try:  # other threads take them concurrently
            if self.unsent and self.unsent[0].ended_at < limit:
                return True
            return bool(self._asked) and self._asked[0][0].ended_at < limit - MAX_ACK_SECONDS - self.round_trip_seconds
        except IndexError:
            return False

    @property
    def seconds_left(self) -> float:
        """Time in which the oldest has to be sent; `MAX_ACK_SECONDS` without one."""
        try:
            return self.unsent[0].ended_at + MAX_ACK_SECONDS - self.clock()
        except IndexError:
            return MAX_ACK_SECONDS

    def take(self, owner: Owner) -> list[Finished]:
        """Take the oldest, at most `MAX_FINISHED`. Jobs of an earlier, fenced identity are void."""
        next_one = self.unsent.popleft
        taken = [next_one() for _ in range(min(len(self.unsent), MAX_FINISHED))]  # only with the lock of the `Line`
        void = [one for one in taken if one.unit.owner is not owner and one.unit.owner != owner]
        for one in taken:
            one.unsent = False
        if void:
            self.confirm(void, range(len(void)))
            taken = [one for one in taken if not one.lost]
        if taken:
            self._asked.append(taken)
        return taken

    def confirm(self, finished: Sequence[Finished], gone: Sequence[int] = ()) -> None:
        """Record the reply to acknowledgements; another process owns the jobs at the positions in ``gone``."""
        if finished:
            self._no_longer_asked(finished)
            units = [one.unit for one in finished]
            for unit in units:
                unit.settled = True
            for place in gone:
                finished[place].lost = True
            self._in_flight.remove(units)
            self.answered.append(finished)

    def keep(self, finished: Sequence[Finished], *, ambiguous: bool) -> None:
        """Keep acknowledgements that failed; ``ambiguous`` if the server may have executed them."""
        if not self._no_longer_asked(finished):
            return  # confirmed before the error
        for one in finished:
            one.unsent = True
            one.ambiguous = one.ambiguous or ambiguous
        self.unsent.extendleft(reversed(finished))
        self.failed = True

    def _no_longer_asked(self, finished: Sequence[Finished]) -> bool:
        try:
            self._asked.remove(finished)
        except ValueError:
            return False
        return True

    def remove(self, carried_out: Sequence[Finished]) -> None:
        """Confirm acknowledgements that the server has executed although their reply was lost."""
        for one in carried_out:
            self.unsent.remove(one)
            one.unsent = False
        self.confirm(carried_out)

    def report(self) -> None:
        """Report confirmed jobs. The caller has no lock."""
        while self.answered:
            self._reporting.append(None)
            try:
                answered = self.answered.popleft()
            except IndexError:  # another thread was faster
                pass
            else:
                self._report(answered)
            finally:
                self._reporting.pop()

    @property
    def are_reported(self) -> bool:
        """Whether no finished job is unwritten, unanswered or unreported. The caller has the lock of the `Line`."""
        return not (self.unsent or self._asked or self.answered or self._reporting)


class IdleThreads:
    """One thread is the leader: it claims for all, and waits for the server. The other threads wait for it.

    No wake-up is lost: a waiter increments the count before it checks for work, and a thread that releases the leader
    lock reads the count afterwards.

    Attributes:
        count: threads that wait for a job, or will need one next.
        leader: the lock of the leader. Who releases it wakes waiters, if there are any and there is work for them.
    """

    def __init__(self) -> None:
        self.count = 0
        self.leader = threading.Lock()
        self._counting = threading.Lock()
        #: A lock for each waiter, which waits until another thread removes and releases it.
        self._waiters: deque[threading.Lock] = deque()

    def join(self) -> None:
        with self._counting:
            self.count += 1

    def leave(self) -> bool:
        """Stop waiting for a job; return whether this was the last thread."""
        with self._counting:
            self.count -= 1
            return self.count == 0

    def take_from(self, ready: deque[UnitOfWork]) -> UnitOfWork | None:
        """Take the next job and leave.

        Both happen under one lock: if the leading thread counted a thread that already has a job, it would claim one
        too many.
        """
        with self._counting:
            try:
                unit = ready.popleft()
            except IndexError:
                return None
            self.count -= 1
            return unit

    @property
    def waiter_count(self) -> int:
        """Threads that wait for a job or for the leader lock."""
        return len(self._waiters)

    def wait(self, may_sleep: Callable[[], bool]) -> None:
        """Wait until there is a job to take, or until there is no leader."""
        woken = threading.Lock()
        woken.acquire()
        # Add it first: `LeadingThread.pass_leader` reads the count after it has released the lock.
        self._waiters.append(woken)
        if self.leader.locked() and may_sleep() and woken.acquire(timeout=MAX_WAIT_SECONDS):
            return
        with suppress(ValueError):  # removed by another thread
            self._waiters.remove(woken)

    def notify(self, threads: int) -> None:
        """Wake this number of waiters."""
        with suppress(IndexError):
            for _ in range(threads):
                self._waiters.popleft().release()


class Reconciler:
    """Compares one fetcher's record of its jobs with the server's."""

    def __init__(self, context: FetcherContext, in_flight: InFlight) -> None:
        self._config = context.config
        self._capsule = context.capsule
        self._redis = context.redis
        self._ownership = context.ownership
        self._controls = context.controls
        self._in_flight = in_flight
        #: Times of the next comparisons in monotonic seconds. Replaced as a whole, under a lock: any thread may call
        #: `verify` or read `due`.
        self._at: tuple[float, ...] = ()
        self._scheduling = threading.Lock()
        self._mismatches = 0
        self._idle_until = 0.0

    @property
    def due(self) -> bool:
        at = self._at
        return bool(at) and at[0] <= time.monotonic()

    def verify(self, again_after_seconds: float) -> None:
        """Schedule a comparison before the next claim, and a second one a little later, because a reply was lost."""
        with self._scheduling:
            now = time.monotonic()
            self._at = (now, max((now + again_after_seconds, *self._at)))

    def mismatch(self) -> bool:
        """Count the listed jobs; True if two consecutive counts found more than are held.

        Called at each beat. While no job is held and the last count agreed, it counts once a minute.
        """
        owner, now = self._ownership.owner(self._capsule.name), time.monotonic()
        if not (self._in_flight or self._mismatches) and now < self._idle_until:
            return False
        self._idle_until = now + IDLE_SECONDS
        listed = owners.held(self._redis, self._lists(owner))
        self._mismatches = self._mismatches + 1 if listed > self._in_flight.of(owner.identity).total() else 0
        if self._mismatches < MISMATCHES:
            return False
        self._mismatches = 0
        return True

    def _lists(self, owner: Owner) -> Lists:
        return Lists(owner.identity, {owner.capsule: self._ownership.registered(self._capsule.name)})

    def run(self, finished: Iterable[Finished]) -> list[Finished]:
        """Compare. The caller ensures that no claim is unanswered, and that no thread claims or acknowledges.

        Args:
            finished: jobs whose acknowledgement has not been confirmed.

        Returns:
            Jobs among them whose acknowledgement was executed although its reply was lost.
        """
        asked = self._at
        owner = self._ownership.owner(self._capsule.name)
        # Read the held jobs first: then a job that is settled during the comparison does not look like a lost one.
        held = self._in_flight.of(owner.identity)
        # A job that waits for its batch must not return to its queue: it would be held while it runs.
        held.update(entry for entry in self._controls.to_hold() if entry.owner.identity == owner.identity)
        listed = Counter(reversed(owners.newest(self._redis, self._lists(owner))))
        ambiguous = [one for one in finished if one.ambiguous]
        carried_out = self._carried_out(ambiguous, held, listed)
        self._give_back(owner, list((listed - held).elements()))
        # Last, so that a comparison that failed half-way is repeated.
        for one in ambiguous:
            one.ambiguous = False
        with self._scheduling:
            if self._at is asked:  # otherwise `verify` was called during this comparison and needs another one
                self._at = asked[1:]
        return carried_out

    def _carried_out(
        self, ambiguous: Iterable[Finished], held: Counter[PrivateListEntry], listed: Counter[PrivateListEntry]
    ) -> list[Finished]:
        found: list[Finished] = []
        for one in ambiguous:
            entry = one.unit.entry
            if listed[entry] < held[entry]:
                held[entry] -= 1
                found.append(one)
        return found

    def _give_back(self, owner: Owner, unknown: Sequence[PrivateListEntry]) -> None:
        try:
            working.put_back(self._redis, [(entry, entry.raw) for entry in reversed(unknown)])
        except Fenced:
            # The process that fenced this owner requeues them.
            self._ownership.renew(owner.identity)
        except RedisRefused as error:
            # One queue that refuses jobs must not stop all claims; the next beats find its job again.
            self._config.handle_error(error, {"context": "requeueing jobs after the reply to their claim was lost"})
        else:
            if unknown:
                logger.warning("requeued %s after the reply to a claim was lost", counted(len(unknown), "job"))


class FetcherState:
    """The state of one capsule's fetcher.

    Attributes:
        in_flight: claimed jobs whose disposition is not written.
        prefetched: claimed jobs that no thread has taken yet.
        unacknowledged: finished jobs whose acknowledgement has no reply yet.
        reconciler: compares the private lists with the jobs in flight.
        idle: the threads that wait for a job.
        wait: how the leading thread waits for the server.
        quiet: set when the fetcher takes no more jobs.
    """

    def __init__(self, context: FetcherContext) -> None:
        self.in_flight = InFlight()
        self.prefetched = Prefetched()
        self.unacknowledged = Unacknowledged(self.in_flight, context.report)
        self.reconciler = Reconciler(context, self.in_flight)
        self.idle = IdleThreads()
        self.wait = ServerWait(context.redis, context.config.worker.liveness_seconds)
        self.quiet = threading.Event()

    def verify(self, again_after_seconds: float = 0.0) -> None:
        """Compare the lists before the next claim, and again a little later, because a reply was lost."""
        self.reconciler.verify(max(SECOND_CHECK_SECONDS, again_after_seconds))
        self.wait.wake()
