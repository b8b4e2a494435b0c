"""The round trips of one capsule: each acknowledges finished jobs and may claim new ones.

1. `Line.ack_and_claim` waits for its reply. `Line.ask` only writes a request; `Line.collect` reads the oldest reply.
   These requests use one connection, so replies arrive in order. Close to the server one request is pending at a
   time; at a distance (`DISTANT_SECONDS`) up to `MAX_UNDER_WAY`, so that threads do not wait for the network.
2. Only the thread with the lock makes a request or reads a reply. Only the leader claims.
3. If a reply is lost, its request and all later ones on the same connection are ambiguous. Their acknowledgements are
   kept, and the private lists are compared (`Reconciler`) before the next request.
4. If the identity was fenced, its finished and unstarted jobs belong to other processes, and are void here.

The prefetch is the number of jobs that the threads finish in five milliseconds plus two round trips (`PrefetchSize`).

Threads finish few slow jobs in that time, so few of them are prefetched. The limit for no-ops is `MAX_NEAR`, or
`MAX_FAR` when a round trip takes `NEAR_SECONDS` or more. A fixed number would be too high for slow jobs and too low
for no-ops.

* The rate counts only the time in which threads have jobs, not the time in which they wait for the server. A rate over
  all time would depend on the prefetch that it determines, and stay low on a distant server.
* Large payloads are prefetched up to a total size: a script that moves many of them blocks the server, and each of them
  stays in the worker's memory until it is acknowledged.
* The round trip is the minimum of recent round trips with few jobs. A reply may be late because jobs hold the
  interpreter lock, or because the script handled many jobs; it is never early.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING

from offsider.core.errors import Fenced, RedisFailure, RedisRefused, RedisUnavailable
from offsider.storage import working
from offsider.storage.effects import EffectCalls
from offsider.storage.working import Pipelined

if TYPE_CHECKING:
    from offsider.storage.blocking_pops import BlockingPops
    from offsider.storage.working import ClaimReply, Owner
    from offsider.worker.fetch.fetcher import FetcherContext
    from offsider.worker.fetch.state import FetcherState, Finished

#: With many threads, the one that reads a reply waits several milliseconds for the interpreter lock.
AHEAD_SECONDS = 0.005
#: Decay time of the moving average. One finished job adds at most 1 / MEMORY_SECONDS to the rate.
MEMORY_SECONDS = 0.005
NEAR_SECONDS = 0.0002
#: From this round trip on, several requests are pending. Below it, more requests would only be smaller and cost more.
DISTANT_SECONDS = 0.0007
#: Maximum prefetch of one process.
MAX_NEAR = 100
MAX_FAR = 500
#: Maximum payload of all prefetched jobs of one process, in bytes; a job for each idle thread is claimed in any case.
MAX_BYTES = 8_000_000
#: Maximum time for two round trips: with a larger prefetch, jobs would wait until the ticker requeues them.
MAX_ROUND_TRIPS_SECONDS = 0.01
#: Number of recent round trips for the minimum.
ROUND_TRIPS = 64
#: A script that acknowledges and claims more jobs than this takes noticeable time on the server.
MAX_TIMED_JOBS = 20
#: With this many jobs to prefetch, the next request is written before they run out.
MIN_AHEAD = 8
#: From this number of finished jobs per second on, one thread runs several jobs before another wakes up, if it would
#: reach this rate alone.
MIN_SHORT_RATE = 10_000
#: Maximum number of requests without a reply, for a distant server.
MAX_UNDER_WAY = 16


class PrefetchSize:
    """Measures the job rate of one capsule and the round trip to the server.

    Not thread-safe: only the thread that makes the round trip uses it.

    Args:
        share: this capsule's share of the process's prefetch limit.
        clock: monotonic seconds.

    Attributes:
        per_second: jobs finished per second while the threads have jobs.
        round_trip_seconds: 0 until the first measurement.
    """

    def __init__(self, share: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._share = share
        self._clock = clock
        self._noted_at = clock()
        self._round_trips: deque[float] = deque(maxlen=ROUND_TRIPS)
        self._payload_bytes = 1.0
        self.per_second = 0.0
        self.round_trip_seconds = 0.0

    def note(self, finished: int, *, starved_seconds: float = 0.0) -> None:
        """Add the jobs finished since the last call; ``starved_seconds`` is the time spent waiting for the server."""
        now = self._clock()
        worked = max(now - self._noted_at - starved_seconds, 1e-6)
        self._noted_at = now
        self.per_second += (finished / worked - self.per_second) * (1 - exp(-worked / MEMORY_SECONDS))

    def note_round_trip(self, seconds: float, jobs: int) -> None:
        """Add a round trip whose script acknowledged and claimed this many jobs."""
        if jobs <= MAX_TIMED_JOBS:
            self._round_trips.append(seconds)
            self.round_trip_seconds = min(self._round_trips)

    def note_payloads(self, payload_bytes: int, jobs: int) -> None:
        """Add the total size of claimed payloads. The estimate rises at once, and falls by half with each claim."""
        mean = payload_bytes / jobs
        self._payload_bytes = max(mean, (self._payload_bytes + mean) / 2)

    @property
    def far(self) -> bool:
        """Whether the server is so distant that several concurrent requests are worth their cost."""
        return self.round_trip_seconds >= DISTANT_SECONDS

    @property
    def most(self) -> int:
        """The limit for this capsule."""
        jobs = MAX_NEAR if self.round_trip_seconds < NEAR_SECONDS else MAX_FAR
        return int(min(jobs, MAX_BYTES / self._payload_bytes) * self._share)

    @property
    def ahead(self) -> int:
        """Number of jobs to fetch beyond those that idle threads need."""
        seconds = AHEAD_SECONDS + min(2 * self.round_trip_seconds, MAX_ROUND_TRIPS_SECONDS)
        return min(self.most, int(self.per_second * seconds))


@dataclass(slots=True)
class Request:
    """The contents of one round trip.

    Attributes:
        finished: jobs to acknowledge.
        order: the queues to claim from.
        at: when it was made, in monotonic seconds; after the reply, when its jobs arrived.
        leading: made by the leader, so it may claim; else it only acknowledges.
        effects: effects of the finished jobs' dispositions.
    """

    owner: Owner
    finished: Sequence[Finished]
    order: Sequence[str]
    limit: int
    at: float
    leading: bool
    effects: EffectCalls | None = None

    def join_effects(self) -> None:
        effects = [one.disposition.effects for one in self.finished]
        if any(effects):
            self.effects = EffectCalls(effects, [one.unit.jid for one in self.finished])

    def note_replies(self, result: ClaimReply) -> None:
        """Give each finished job the replies of its effects."""
        if self.effects is not None:
            for one, replies in zip(self.finished, self.effects.by_job(result.replies), strict=True):
                one.replies = replies

    @property
    def done(self) -> list[tuple[str, bytes]]:
        return [(one.unit.queue, one.unit.raw) for one in self.finished]


class ClaimSize:
    """The size of the claims of one capsule. Only the thread with the lock changes it.

    Args:
        under_way: the requests without a reply.

    Attributes:
        prefetch: computes the number of jobs to claim beyond those that idle threads need.
    """

    def __init__(self, context: FetcherContext, state: FetcherState, under_way: deque[Request]) -> None:
        self._state = state
        self._idle = state.idle
        self._under_way = under_way
        self._concurrency = context.capsule.concurrency
        self._starved_seconds = 0.0
        threads = sum(one.concurrency for one in context.config.capsules.values())
        self.prefetch = PrefetchSize(self._concurrency / threads)

    def wanted(self) -> int:
        """Return how many jobs to claim next: one for each waiting thread, and some to prefetch."""
        ahead = self._room() - len(self._state.prefetched.ready)
        return max(0, min(self._idle.count + ahead, working.BATCH))

    def _room(self) -> int:
        """Return how many jobs may be prefetched, beyond those already requested.

        The limit applies to all claimed and unacknowledged jobs, beyond one job for each thread. It includes jobs on
        their way from the server, and finished jobs whose acknowledgement is on its way to the server.
        """
        requests = self._under_way.copy()  # in one step: another thread may read a reply
        asked = sum(request.limit for request in requests)
        unanswered = sum(len(request.finished) for request in requests)
        return min(self.prefetch.ahead, self.prefetch.most - unanswered) - asked

    def note_reply(
        self, request: Request, result: ClaimReply, waited_seconds: float, idle: int, *, timed: bool
    ) -> None:
        """Note a reply, and the wait for it, which began with ``idle`` idle threads."""
        # Estimate the time without a job from the average number of idle threads during the wait.
        self._starved_seconds += waited_seconds * (idle + self._idle.count) / 2 / self._concurrency
        took_seconds = time.monotonic() - request.at
        if timed and waited_seconds > took_seconds / 2:  # otherwise the reply arrived before it was read
            self.prefetch.note_round_trip(took_seconds, len(request.finished) + len(result.claimed))
            self._state.unacknowledged.round_trip_seconds = self.prefetch.round_trip_seconds
        if result.claimed:
            self.prefetch.note_payloads(sum([len(raw) for _, raw in result.claimed]), len(result.claimed))

    def note_finished(self, finished: Sequence[Finished]) -> None:
        """Update the rate with the jobs finished since the last request."""
        starved_seconds, self._starved_seconds = self._starved_seconds, 0.0
        self.prefetch.note(len(finished), starved_seconds=starved_seconds)
        # Many threads with sleeping jobs reach a high rate together, but each of these jobs needs its own thread.
        last = finished[-1].unit.run if finished else None
        short = last is None or last.duration_seconds < 1 / MIN_SHORT_RATE
        self._state.prefetched.short_jobs = short and self.prefetch.per_second >= MIN_SHORT_RATE

    def set_refill_at(self, *, line_is_full: bool) -> None:
        """Set the number of remaining prefetched jobs at which the next request is worth its cost."""
        ahead = self.prefetch.ahead
        # For a distant server several requests are pending, so each may deliver fewer jobs.
        worth_it = min(ahead // 4 if self.prefetch.far else ahead - ahead // 2, working.BATCH)
        self._state.prefetched.refill_at = -1 if ahead < MIN_AHEAD or line_is_full else self._room() - worth_it


NOTHING = working.ClaimReply((), (), working.NOT_PAUSED, "")


class Line:
    """The requests of one capsule.

    Args:
        arrived: called with each reply to a claim, by the thread that has the lock.

    Attributes:
        claims: computes how many jobs to claim.
        last: the reply to the last claim.
        emptied: the last claim emptied the queues, so the leading thread may sleep without another claim.
        answered_at: time of the last reply in monotonic seconds.
    """

    def __init__(
        self, context: FetcherContext, state: FetcherState, arrived: Callable[[Request, ClaimReply], None]
    ) -> None:
        self._context = context
        self._state = state
        self._wait = state.wait
        self._idle = state.idle
        self._arrived = arrived
        self._lock = threading.Lock()
        self._wire = Pipelined(context.redis)
        self._under_way: deque[Request] = deque()
        self._rebuilding = False
        self.claims = ClaimSize(context, state, self._under_way)
        self.last = NOTHING
        self.emptied = False
        self.answered_at = 0.0

    def is_written(self) -> bool:
        """Return whether all acknowledgements are written and reported."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            return self._state.unacknowledged.are_reported
        finally:
            self._lock.release()

    @property
    def busy(self) -> bool:
        """Whether a round trip is pending that may still deliver a job."""
        return self._lock.locked() or bool(self._under_way)

    @property
    def under_way(self) -> bool:
        """Whether there are replies to collect."""
        return bool(self._under_way)

    @property
    def full(self) -> bool:
        """Whether a reply must be read before the next request."""
        return len(self._under_way) >= (MAX_UNDER_WAY if self.claims.prefetch.far else 1)

    def waits_since(self, moment: float) -> bool:
        """Return whether the oldest unread reply belongs to a request written before this moment."""
        try:
            return self._under_way[0].at < moment
        except IndexError:
            return False

    def may_claim(self) -> bool:
        """Return whether jobs may be claimed and started now."""
        return not self._state.quiet.is_set() and self._context.claims_allowed()

    def wanted(self) -> int:
        """Return how many jobs to claim next."""
        # Checked with the lock, so that `busy` shows this claim to others.
        return self.claims.wanted() if self.may_claim() else 0

    def ack_and_claim(self, *, claim: bool = True) -> ClaimReply:
        """Make one round trip: acknowledge finished jobs, claim the wanted number, and call waiting pops back.

        Only the leader calls it.

        Raises:
            RedisFailure: the round trip failed.
        """
        self.collect_all()
        with self._lock:
            pops = self._wait.pops if self._wait.pops.waiting else None
            return self._exchange(self._request(self.wanted() if claim else 0, leading=True), pops)

    def acknowledge(self, finished: Finished | None = None) -> None:
        """Acknowledge finished jobs without a claim. Any thread may call it.

        Args:
            finished: only if this one is not acknowledged yet. The leading thread reads the reply if it is awake.

        Raises:
            RedisFailure: the request failed.
        """
        unsent, asleep = self._state.unacknowledged.unsent, self._wait.asleep
        with self._lock:
            if not unsent or (finished is not None and not finished.unsent):
                return
            request = self._request(0, leading=False)
            if finished is None or asleep or len(self._under_way) >= MAX_UNDER_WAY:
                self._exchange(request)
                return
            self._write(request)
        if self._wait.asleep:
            self._wait.wake()

    def ask(self) -> None:
        """Write the next request. The caller is the leader.

        Raises:
            RedisFailure: the request could not be written.
        """
        with self._lock:
            self._write(self._request(self.wanted(), leading=True))

    def collect(self, *, wait: bool = True) -> bool:
        """Read the oldest of the pending replies, as the leader; False if there is none, or none has arrived.

        Raises:
            RedisFailure: the reply was lost, or the server refused the request.
        """
        with self._lock:
            # A thread whose write failed has closed the connection and emptied `_under_way`.
            if not self._under_way or not (wait or self._wire.readable):
                return False
            request = self._under_way.popleft()
            try:
                self._answered(request, lambda: self._wire.answer(request.order, request.effects))
            except BaseException as error:
                self._keep(request, error)
                # Nothing was executed, for example after a restart of the server. The next request sends the script.
                if not isinstance(error, RedisRefused) or error.code != "NOSCRIPT":
                    raise
            return True

    def collect_all(self, *, wait: bool = True) -> None:
        """Read all replies, or those that have arrived. The caller is the leader."""
        while self._under_way and self.collect(wait=wait):
            pass

    def compare(self) -> None:
        """Compare the private lists with the jobs in flight. The caller is the leader and has collected all replies."""
        unacknowledged = self._state.unacknowledged
        with self._lock:
            # An atomic copy: other threads append concurrently.
            unacknowledged.remove(self._state.reconciler.run(unacknowledged.unsent.copy()))

    def note_start(self) -> None:
        """Record that jobs start without a round trip; jobs finished before the sleep no longer count for the rate."""
        self.answered_at = time.monotonic()
        self.emptied = False  # their queues may contain more
        if self._lock.acquire(blocking=False):  # otherwise a round trip is under way, which records its own
            try:
                self.claims.prefetch.note(0)
            finally:
                self._lock.release()

    def rebuild(self) -> None:
        """Use a new connection as soon as no reply is pending."""
        self._rebuilding = True

    def close(self) -> None:
        self._wire.close()

    # --- with the lock ----------------------------------------------------------------------------

    def _request(self, limit: int, *, leading: bool) -> Request:
        context = self._context
        owner = context.owner
        order: Sequence[str] = ()
        if leading:
            every = context.capsule.fetch_order(context.config.random)
            order = self._wait.choice.to_claim_from(every, self._wait.pops.queues)
        # Before a comparison nothing is acknowledged: the server may have executed the acknowledgement already.
        finished = () if self._state.reconciler.due else self._state.unacknowledged.take(owner)
        self.claims.note_finished(finished)
        return Request(owner, finished, order, limit, time.monotonic(), leading)

    def _exchange(self, request: Request, pops: BlockingPops | None = None) -> ClaimReply:
        """Make the request on a connection of the pool, and wait for its reply."""

        def ask() -> ClaimReply:
            request.join_effects()
            redis, owner, order, done = self._context.redis, request.owner, request.order, request.done
            return working.ack_and_claim(redis, owner, order, request.limit, done, effects=request.effects, pops=pops)

        try:
            return self._answered(request, ask, timed=pops is None)
        except BaseException as error:
            self._keep(request, error)
            raise

    def _write(self, request: Request) -> None:
        """Write the request; `collect` reads its reply."""
        if self._rebuilding and not self._under_way:
            self._rebuilding = False
            self._wire.close()
        try:
            request.join_effects()
            self._wire.ask(request.owner, request.order, request.limit, request.done, request.effects)
        except BaseException as error:
            self._keep(request, error)
            raise
        self._under_way.append(request)
        self.claims.set_refill_at(line_is_full=self.full)

    def _answered(self, request: Request, ask: Callable[[], ClaimReply], *, timed: bool = True) -> ClaimReply:
        began, idle = time.monotonic(), self._idle.count
        state = self._state
        try:
            result = ask()
        except Fenced:
            state.unacknowledged.confirm(request.finished, range(len(request.finished)))
            # Other processes own the unstarted jobs as well.
            state.in_flight.remove(state.prefetched.take_of(request.owner))
            self.emptied = False
            with suppress(RedisFailure):  # the next request is refused as well, and renews it
                self._context.ownership.renew(request.owner.identity)
            return NOTHING
        self.answered_at = now = time.monotonic()
        request.note_replies(result)
        state.unacknowledged.confirm(request.finished, result.gone)
        state.unacknowledged.failed = state.reconciler.due and bool(state.unacknowledged.unsent)
        self.claims.note_reply(request, result, now - began, idle, timed=timed)
        self._context.controls.note_version(result.version)
        if request.leading:
            request.at = now
            choice = self._wait.choice
            choice.note_claimed(request.order, result.claimed, limit=request.limit)
            got_all = not result.refused and 0 < request.limit > len(result.claimed)
            self.last, self.emptied = result, got_all and not choice.with_jobs
            self._arrived(request, result)
        self.claims.set_refill_at(line_is_full=self.full)
        return result

    def _keep(self, request: Request, error: BaseException) -> None:
        """Keep the acknowledgements of a failed request for the next one.

        If its connection is closed, keep the jobs of its other pending requests, too.
        """
        self.emptied = False
        unacknowledged = self._state.unacknowledged
        ambiguous = not isinstance(error, RedisFailure) or (isinstance(error, RedisUnavailable) and error.ambiguous)
        if not isinstance(error, RedisFailure):
            self._wire.close()  # part of a request may be written, or of a reply read
        if not self._wire.awaits:  # its connection is closed, and all replies are lost
            ambiguous = ambiguous or bool(self._under_way)
            while self._under_way:
                unacknowledged.keep(self._under_way.pop().finished, ambiguous=True)
        unacknowledged.keep(request.finished, ambiguous=ambiguous)
        if ambiguous:
            self._state.verify(self._wait.lost_pop_seconds if self._wait.pops.waiting else 0.0)
