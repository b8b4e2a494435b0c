"""The reliable fetcher: jobs move into private lists and stay there until their outcome is written.

Leader and followers, without a thread of the fetcher's own:

1. A free thread takes a job out of ``_ready``. When there is none it lines up for the lead.
2. The leader makes one round trip for all: it acknowledges what was finished and claims for every thread that
   waits, and a little ahead (`Pace`). Then the lock wakes the next.
3. While half of the jobs fetched ahead still wait to be run, the next request is written already (`Ahead`), so that
   nobody waits for its answer. Of jobs that take microseconds one thread runs a batch alone, since waking the
   others would take longer; they sleep at a bell.
4. A claim that brought nothing makes the leader sleep (`Waiting`). What wakes it brings the next round trip.
5. A finished job of less than a millisecond is acknowledged with the next round trip; after a longer one its
   thread first has the acknowledgement written (rule 19). Neither waits behind a leader who sleeps (rule 18).
6. While something lies ready or unacknowledged a ticker looks each 20 ms: what is here for longer than that, and
   has no thread that is about to take it, goes back to its queue, where other processes find it; and
   acknowledgements go out.
7. After a lost reply the lists are compared with what is held (`Reconciler`) before the next claim.

A failure of Redis is reported once; the leader then tries once a second until the server is back.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsider.core.errors import Fenced, RedisFailure, RedisRefused, RedisUnavailable
from offsider.storage import working
from offsider.storage.ahead import Ahead
from offsider.wiring.service import Loop
from offsider.worker.held import Held
from offsider.worker.outage import Outage
from offsider.worker.pace import Pace
from offsider.worker.reconcile import Reconciler
from offsider.worker.unit_of_work import UnitOfWork
from offsider.worker.waiting import Waiting, Way

if TYPE_CHECKING:
    from offsider.storage.working import Entry, Exchange, Owner
    from offsider.wiring.capsule import Capsule
    from offsider.wiring.config import Config
    from offsider.worker.outcome import Run
    from offsider.worker.ownership import Ownership

logger = logging.getLogger("offsider")

OUTAGE_SECONDS = 1.0
REFUSED_SECONDS = 0.05
TICK_SECONDS = 0.02
#: After so long a leader hangs, whom the ticker else waits for.
HUNG_SECONDS = 1.0
#: How long the end waits for a tick that is under way: the server may be away.
LAST_TICK_SECONDS = 0.2
#: While so many jobs are finished in a second, who writes acknowledgements waits a moment for more of them.
CROWDED = 2_000
GATHER_SECONDS = 0.0002
#: So many jobs fetched ahead mean that they take microseconds.
MANY = 20
#: Nobody is forgotten for longer, should the bell ever fail to ring.
LISTEN_SECONDS = 5.0
#: How long a thread relies on the leader to take its acknowledgement along.
HANDOVER_SECONDS = 0.005
#: A job that took less is acknowledged together with others.
MERGED_BELOW_SECONDS = 0.001
#: The server may still carry out a command of a connection that we gave up.
SECOND_LOOK_SECONDS = 7.0
#: Acknowledgements in one script: Redis' Lua unpacks at most 8,000 values.
MOST_FINISHED = 400

_NOTHING = working.Exchange((), (), working.NOT_PAUSED, "")


@dataclass(slots=True)
class _Request:
    """What one round trip asks for.

    Attributes:
        finished: to be acknowledged.
        order: the queues to claim from.
        at: when it was made, in monotonic seconds; once it is answered, since when its jobs are here.
        leading: it claims, and not only acknowledges.
    """

    owner: Owner
    finished: Sequence[UnitOfWork]
    order: Sequence[str]
    limit: int
    at: float
    leading: bool

    @property
    def done(self) -> list[tuple[str, bytes]]:
        return [(unit.queue, unit.raw) for unit in self.finished]


def _always() -> bool:
    """Until somebody else decides."""
    return True


def _nobody_listens(_units: Sequence[UnitOfWork], _gone: Sequence[int]) -> None:
    """Until somebody wants to know what was acknowledged."""


class ReliableFetcher:
    """Fetches for one capsule. See the head of this file for how.

    Attributes:
        on_settled: called with units whose acknowledgement was answered, and the places of those among them that
            were void because somebody else owns the job; by any thread, holding no lock.
        claims_allowed: asked before each claim and each park; False while a job has to be alone in this process.
    """

    def __init__(self, config: Config, capsule: Capsule, ownership: Ownership) -> None:
        self._config = config
        self._capsule = capsule
        self._redis = capsule.redis
        self._ownership = ownership
        self._outage = Outage(f"fetcher of capsule {capsule.name}", config)
        self._merged_below = MERGED_BELOW_SECONDS if config.worker.ack == "merged" else 0.0
        self._held = Held()
        self._pace = Pace()
        self._waiting = Waiting(self._redis, config.worker.liveness_seconds)
        self._reconciler = Reconciler(config, capsule, ownership, self._held)
        self._ticker = Loop(f"offsider-{capsule.name}-ticker", self.tick, on_error=config.handle_error)
        self._ticking = False
        #: Who claims and who sleeps at the server.
        self._lead = threading.Lock()
        #: Where the others sleep.
        self._bell = threading.Condition()
        self._listening = 0
        #: Whose round trip it is: the leader's, or that of a thread or the ticker that only acknowledges.
        self._turn = threading.Lock()
        self._ready: deque[UnitOfWork] = deque()
        self._finished: deque[UnitOfWork] = deque()
        self._answered: deque[tuple[Sequence[UnitOfWork], Sequence[int]]] = deque()
        self._surplus: deque[UnitOfWork] = deque()
        self._quiet = threading.Event()
        self._closing = False
        #: Acknowledgements could not be written: nobody starts another job before they are.
        self._stuck = False
        #: With so many jobs left, somebody fetches before the others run dry.
        self._low = 0
        self._ahead = Ahead(self._redis)
        self._asked: _Request | None = None
        self._rebuilding = False
        self._hungry = 0
        self._seats = threading.Lock()
        self._owner = ownership.owner(capsule.name)
        self._last = _NOTHING
        #: The last claim took all there was, so waiting may begin without another one.
        self._dry = False
        self._abandoned = threading.Event()
        self._exchanged_at = 0.0
        self.on_settled: Callable[[Sequence[UnitOfWork], Sequence[int]], None] = _nobody_listens
        self.claims_allowed: Callable[[], bool] = _always

    # --- the seam -------------------------------------------------------------------------------

    def retrieve(self) -> UnitOfWork | None:
        """The next job; waits for one. None once the fetcher is quiet."""
        ready = self._ready
        if ready and not self._closing and not self._stuck:
            if len(ready) <= self._low and self._asked is None and self._lead.acquire(blocking=False):
                # Ask for more while there still is something to run.
                with self._passing_lead():
                    self._try(lambda: self._ask_ahead(1))
            try:
                return ready.popleft()
            except IndexError:  # another thread was quicker
                pass
        return self._line_up()

    def finish(self, unit: UnitOfWork, run: Run) -> None:
        """The job is done: acknowledge it, at once or with others. `on_settled` tells what came of that."""
        unit.run = run
        self._finished.append(unit)
        if run.duration_seconds >= self._merged_below:
            self._send_off(unit)
        elif not self._ticking:
            self._wake_ticker()

    def acknowledge(self, unit: UnitOfWork) -> bool:
        """The job is done. False when somebody else owns it by now."""
        return working.acknowledge(self._redis, _entry(unit))

    def requeue(self, unit: UnitOfWork) -> None:
        """The job goes back to the head of its queue."""
        self.bulk_requeue([unit])

    def bulk_requeue(self, units: Sequence[UnitOfWork]) -> None:
        """All these jobs go back; those of a fenced identity are somebody else's already."""
        by_identity: dict[str, list[UnitOfWork]] = {}
        for unit in units:
            by_identity.setdefault(_entry(unit).owner.identity, []).append(unit)
        for owned in by_identity.values():
            for start in range(0, len(owned), working.BATCH):
                self._put_back(owned[start : start + working.BATCH])

    def _put_back(self, units: Sequence[UnitOfWork]) -> None:
        try:
            with suppress(Fenced):
                working.put_back(self._redis, [(_entry(unit), unit.put_back) for unit in units])
        except RedisFailure:
            # Some may be back and some not: the next comparison finds those that are not.
            self.doubt()
            raise
        for unit in units:
            self.release(unit)

    def quiet(self) -> None:
        """Take no further jobs, and wake whoever waits in `retrieve`."""
        self._closing = True
        self._quiet.set()
        self._ring(self._listening)
        self._waiting.wake()

    def close(self) -> None:
        """Give the connections up, after the last thread has left."""
        self._ticker.stop()
        self._ticker.join(LAST_TICK_SECONDS)
        if self._lead.acquire(timeout=0.1):
            self._waiting.close()
            self._ahead.close()
            self._lead.release()

    # --- keeping count ---------------------------------------------------------------------------

    def release(self, unit: UnitOfWork) -> None:
        """The outcome of this unit is known: it is no longer held."""
        unit.settled = True
        self._held.remove((unit,))

    def still_mine(self, unit: UnitOfWork) -> bool:
        """Whether a settle without a reply has to be sent again.

        It has when the list holds as many equal copies as are held here: then none was removed (rule 5).
        """
        entry = _entry(unit)
        return working.copies(self._redis, entry) >= self._held.copies(entry)

    def doubt(self, again_after_seconds: float = 0.0) -> None:
        """A reply was lost: compare the lists before the next claim, and once more a little later."""
        self._reconciler.doubt(max(SECOND_LOOK_SECONDS, again_after_seconds))
        self._waiting.wake()

    def wake(self) -> None:
        """Look for jobs now: there are other queues to serve."""
        self._dry = False
        self._waiting.wake()

    def rebuild(self) -> None:
        """Give up all connections that nobody uses this moment, and wake whoever leads; called by another thread."""
        self._waiting.rebuild()
        self._rebuilding = True
        self._redis.close()
        self.doubt()

    def audit(self) -> None:
        """Called at each beat: compares when two in a row saw more jobs listed than held, or when it is time to."""
        if self._reconciler.mismatch():
            self.doubt()
        elif self._reconciler.due:
            self._waiting.wake()

    def reconsider(self) -> None:
        """`claims_allowed` answers otherwise than before."""
        self._waiting.wake()

    @property
    def claims_out(self) -> bool:
        """Whether a round trip or a park is under way that may still bring a job."""
        return self._turn.locked() or self._asked is not None or bool(self._waiting.parking.waiting)

    @property
    def way(self) -> Way:
        """How this capsule waits. Asks the server the first time; RedisUnavailable when it cannot be asked."""
        return self._waiting.way()

    @property
    def last_look(self) -> float:
        """When the server was last heard of, in monotonic seconds."""
        return max(self._exchanged_at, self._waiting.stirred)

    @property
    def hungry(self) -> int:
        """How many threads wait for a job."""
        return self._hungry

    # --- threads without a job ---------------------------------------------------------------------

    def _line_up(self) -> UnitOfWork | None:
        with self._seats:
            self._hungry += 1
        try:
            while not self._closing:
                unit = self._take_ready()
                if unit is not None:
                    return unit
                if self._lead.acquire(blocking=False):
                    with self._passing_lead():
                        if (self._stuck or not self._ready) and not self._closing:
                            self._fetch()
                    self._follow_up()
                else:
                    self._listen()
        except BaseException:
            self._leave_unfed()
            raise
        self._leave_unfed()
        return None

    def _listen(self) -> None:
        """Sleep until there is a job to take, or the lead."""
        with self._bell:
            # Counted first: who passes the lead on looks at the count after letting go of it.
            self._listening += 1
            try:
                if not self._closing and self._lead.locked() and (self._stuck or not self._ready):
                    self._bell.wait(LISTEN_SECONDS)
            finally:
                self._listening -= 1

    def _pass_lead(self) -> None:
        """Give the lead up, and wake who is needed: one to lead, and threads for the jobs that are ready.

        Of jobs that take microseconds one thread runs a batch in the time in which the others would wake up; if one of
        them takes longer after all, the ticker wakes the rest.
        """
        self._lead.release()
        if self._listening and not (len(self._ready) >= MANY and self._pace.ahead >= MANY):
            self._ring(1 + len(self._ready))

    @contextmanager
    def _passing_lead(self) -> Generator[None]:
        """For a thread that has the lead, which is passed on at the end of the block."""
        try:
            yield
        finally:
            self._pass_lead()

    def _ring(self, threads: int) -> None:
        with self._bell:
            self._bell.notify(threads)

    def _take_ready(self) -> UnitOfWork | None:
        # One step with the count: a leader that counted a thread which is served already would claim a job
        # that nobody is free to run.
        with self._seats:
            if self._stuck or not self._ready:
                return None
            with suppress(IndexError):
                unit = self._ready.popleft()
                self._hungry -= 1
                return unit
        return None

    def _leave_unfed(self) -> None:
        with self._seats:
            self._hungry -= 1
            last = self._hungry == 0
        if last:
            # What a claim that was under way still brought goes back unrun.
            self._settle_the_rest()

    # --- acknowledging -----------------------------------------------------------------------------

    def _send_off(self, unit: UnitOfWork) -> None:
        """Have the acknowledgement of ``unit`` written before its thread starts another job."""
        if self._waiting.asleep:
            self.flush()
            return
        with self._seats:  # its thread will want a job next
            self._hungry += 1
        try:
            self._wait_until_sent(unit)
        finally:
            with self._seats:
                self._hungry -= 1
        while self._reconciler.due and not unit.sent and not self._closing:
            # The leader may see to it, and go back to sleep with the lead.
            self._waiting.wake()
            if self._lead.acquire(timeout=HANDOVER_SECONDS):
                with self._passing_lead():
                    self._try(self._catch_up)
        if not unit.sent:
            self.flush()
        self._follow_up()

    def _wait_until_sent(self, unit: UnitOfWork) -> None:
        unit.waiter = waiter = threading.Lock()
        waiter.acquire()
        while not (unit.sent or self._stuck or self._reconciler.due or self._waiting.asleep):
            if self._lead.acquire(blocking=False):
                self._lead_for(unit)
            else:
                # Whoever leads takes it along, or wakes this thread to lead.
                waiter.acquire(timeout=HANDOVER_SECONDS)

    def _lead_for(self, unit: UnitOfWork) -> None:
        with self._passing_lead():
            if not unit.sent:
                if self._pace.per_second >= CROWDED:
                    time.sleep(GATHER_SECONDS)
                self._try(self._write_off)
        with suppress(IndexError):
            _wake(self._finished[0])

    def _write_off(self) -> None:
        """Write what is finished, and leave the answer to who needs the jobs in it."""
        self._collect()
        if not self._ask_ahead():
            self._exchange(self._wanted())

    def flush(self) -> None:
        """Acknowledge what is finished, and claim nothing. Failures are reported, and tried again later."""
        if self._finished and not self._reconciler.due:
            self._try(lambda: self._exchange(0, leading=False))
        self._follow_up()

    def abandon(self) -> None:
        """Wait for the server no longer: the worker has to go."""
        self._abandoned.set()

    def _try(self, step: Callable[[], object]) -> None:
        try:
            step()
        except RedisFailure as error:
            self._outage.noticed(error)
        else:
            self._outage.over()

    def _settle_the_rest(self) -> None:
        """The last thread's duty: nothing is left waiting, finished or ready when it has gone."""
        while self._finished or self._asked is not None or self._waiting.parking.waiting:
            self._lead.acquire()
            with self._passing_lead():
                self._try(self._catch_up)
                if not self._finished:
                    # What they still bring stays in our lists, where a sweep finds it.
                    self._waiting.parking.close()
            self._follow_up()
            if self._finished and self._abandoned.wait(OUTAGE_SECONDS):
                logger.error("%d finished jobs could not be acknowledged: they will run again", len(self._finished))
                break
        self._give_back(self._taken_from(self._ready))

    def _catch_up(self) -> None:
        """Leave neither a doubt nor an acknowledgement; with the lead."""
        if self._reconciler.due:
            self._reconcile()
        self._exchange(0)

    def _follow_up(self) -> None:
        """What a round trip leaves to do when no lock is held any more."""
        while self._answered:
            with suppress(IndexError):
                self.on_settled(*self._answered.popleft())
        if self._surplus:
            self._give_back(self._taken_from(self._surplus))

    # --- the ticker ----------------------------------------------------------------------------------

    def _wake_ticker(self) -> None:
        self._ticking = True
        self._ticker.start()
        self._ticker.wake()

    def tick(self) -> float:
        """Give back what waits too long for a thread, and send acknowledgements that nobody else sent."""
        now = time.monotonic()
        if self._listening and self._exchanged_at < now - TICK_SECONDS / 2:
            self._ring(1 + len(self._ready))
        asked = self._asked
        if (asked is not None and asked.at < now - TICK_SECONDS) or self._waits_since(now - TICK_SECONDS):
            self._give_back_what_nobody_takes()
        if self._finished and self._exchanged_at < now - TICK_SECONDS:
            self.flush()
        if self._is_busy():
            return TICK_SECONDS
        self._ticking = False
        return TICK_SECONDS if self._is_busy() else 3600.0

    def _is_busy(self) -> bool:
        """Whether there is something that must not lie for longer than a tick, or threads sleep and nobody leads."""
        unled = self._listening > 0 and not self._lead.locked()
        return unled or bool(self._ready or self._finished or self._asked is not None)

    def _waits_since(self, moment: float) -> bool:
        with suppress(IndexError):
            return self._ready[0].claimed_at < moment
        return False

    def _give_back_what_nobody_takes(self) -> None:
        """Those that were claimed last, beyond one for each thread that is free: it may only be slow to wake up.

        Also what was asked ahead by a thread that runs a long job now. Nobody else leads meanwhile: that would bring
        what stands behind them, to be run before them. But a leader who hangs keeps them from nobody for long.
        """
        leading = self._lead.acquire(timeout=TICK_SECONDS)
        if not leading and not self._waits_since(time.monotonic() - HUNG_SECONDS):
            return
        try:
            if leading:
                self._try(self._collect)
            spare: list[UnitOfWork] = []
            with suppress(IndexError):
                while len(self._ready) > (0 if self._stuck else self._hungry):
                    spare.append(self._ready.pop())
            self._give_back(spare[::-1])
        finally:
            if leading:
                self._pass_lead()
        self._follow_up()

    def _give_back(self, units: Sequence[UnitOfWork]) -> None:
        if units:
            try:
                # The one that was claimed last goes first, so that the oldest ends up at the head.
                self.bulk_requeue(units[::-1])
            except RedisFailure as error:
                # Those that are still in our lists are nobody's now, and found by the comparison.
                self._held.remove(units)
                self._config.handle_error(error, {"context": "giving back jobs that had not started"})

    @staticmethod
    def _taken_from(units: deque[UnitOfWork]) -> list[UnitOfWork]:
        taken: list[UnitOfWork] = []
        with suppress(IndexError):
            while True:
                taken.append(units.popleft())
        return taken

    # --- the leader --------------------------------------------------------------------------------

    def _fetch(self) -> None:
        """One step of the leader, who holds the lead and nothing else."""
        try:
            if self._reconciler.due:
                self._reconcile()
            result = self._collect()
            if result is None:
                result = self._exchange(self._wanted()) if self._finished or not self._dry else self._last
            while not result.refused and self._may_sleep() and not (self._ready or self._surplus or self._answered):
                self._sleep(result.paused)
                if self._may_start_at_once():
                    self._start_at_once()
                    break
                result = self._exchange(self._wanted())
        except RedisFailure as error:
            self._failed(error)
            return
        self._outage.over()
        if result.refused and not self._ready:
            self._outage.noticed(working.refusal(result.refused))
            self._quiet.wait(REFUSED_SECONDS)

    def _may_start_at_once(self) -> bool:
        """Whether what parks have brought needs no further round trip.

        It needs one to learn of pauses, unless the server tells of them, and to call back the parks that could bring
        more than the remaining threads can run (rules 15 and 17).
        """
        parking = self._waiting.parking
        if not (parking.brought and self._waiting.knows_pauses) or self._reconciler.due or not self._wanted():
            return False
        return self._hungry - len(parking.brought) >= len(parking.waiting)

    def _start_at_once(self) -> None:
        self._exchanged_at = time.monotonic()
        # There may be more where it came from.
        self._dry = False
        self._pace.note(0)  # what was finished before the sleep is long past
        self._take_in(_NOTHING, _Request(self._current_owner(), (), (), 0, self._exchanged_at, leading=True))

    def _wanted(self, more: int = 0) -> int:
        """How many jobs to claim: one for each thread that waits, and some ahead."""
        if self._closing or not self.claims_allowed():
            return 0
        with self._seats:
            hungry = self._hungry + more
        return max(0, min(hungry + self._pace.ahead - len(self._ready), working.BATCH))

    def _sleep(self, paused: frozenset[str]) -> None:
        # In their fixed order: by a draw, each would have a connection of its own in the end.
        queues = self._capsule.queues if self.claims_allowed() else ()
        self._waiting.sleep(self._current_owner(), queues, paused, self._may_sleep)
        self._heed_parks()

    def _heed_parks(self) -> None:
        if self._waiting.lost_a_park():
            self.doubt(self._waiting.straggling_seconds)

    def _may_sleep(self) -> bool:
        return not (self._finished or self._closing or self._reconciler.due)

    def _exchange(self, limit: int, *, leading: bool = True) -> Exchange:
        """One round trip: acknowledge what is finished, claim up to ``limit``, and call waiting parks back.

        Args:
            leading: the caller has the lead. Others only acknowledge: the parks are the leader's.
        """
        if leading:
            self._collect()
        with self._turn:
            request = self._request(limit, leading=leading)
            parking = self._waiting.parking if leading and self._waiting.parking.waiting else None
            return self._answered_by(
                request,
                lambda: working.exchange(
                    self._redis, request.owner, request.order, request.limit, request.done, parking=parking
                ),
            )

    def _request(self, limit: int, *, leading: bool) -> _Request:
        owner = self._current_owner()
        order = self._capsule.fetch_order(self._config.random) if leading else ()
        # Asked once more, where `claims_out` can be seen.
        limit = limit if self.claims_allowed() else 0
        return _Request(owner, self._take_finished(owner), order, limit, time.monotonic(), leading)

    def _answered_by(self, request: _Request, ask: Callable[[], Exchange]) -> Exchange:
        try:
            result = ask()
        except Fenced:
            self._void(request.finished)
            # What has not started is somebody else's as well.
            self._held.remove(self._taken_from(self._ready))
            self._dry = False
            self._ownership.renew(request.owner.identity)
            return _NOTHING
        except RedisFailure as error:
            self._keep_unsent(request.finished, error)
            raise
        self._note_answered(request.finished, result)
        if request.leading:
            request.at = self._exchanged_at
            self._last, self._dry = result, not result.refused and 0 < request.limit > len(result.claimed)
            self._heed_parks()
            self._take_in(result, request)
        return result

    # --- a round trip ahead ------------------------------------------------------------------------

    def _ask_ahead(self, more: int = 0) -> bool:
        """Write the next request, whose answer nobody waits for; with the lead. False when that cannot be done now."""
        if self._asked is not None or self._reconciler.due:
            return False
        if self._waiting.parking.waiting or self._waiting.parking.brought:
            return False
        if self._rebuilding:
            self._rebuilding = False
            self._ahead.close()
        with self._turn:
            request = self._request(self._wanted(more), leading=True)
            try:
                self._ahead.ask(request.owner, request.order, request.limit, request.done)
            except RedisFailure as error:
                self._keep_unsent(request.finished, error)
                raise
            for unit in request.finished:
                unit.sent = True
                if unit.waiter is not None:
                    _wake(unit)
            self._asked = request
        if not self._ticking:
            self._wake_ticker()
        return True

    def _collect(self) -> Exchange | None:
        """Read the reply to what was asked ahead; None when nothing was. With the lead."""
        if self._asked is None:
            return None
        with self._turn:
            request, self._asked = self._asked, None
            try:
                return self._answered_by(request, self._ahead.answer)
            except RedisRefused as error:
                # Nothing was done, because the server was started anew for example: asked again, it is told in full.
                if error.code != "NOSCRIPT":
                    raise
                self._stuck = False
                return None

    def _current_owner(self) -> Owner:
        if self._owner.identity is not self._ownership.identity:
            self._owner = self._ownership.owner(self._capsule.name)
        return self._owner

    def _take_finished(self, owner: Owner) -> list[UnitOfWork]:
        finished: list[UnitOfWork] = []
        if self._reconciler.due:
            return finished  # one of them may have been acknowledged already
        void: list[UnitOfWork] = []
        with suppress(IndexError):
            while len(finished) < MOST_FINISHED:
                unit = self._finished.popleft()
                (finished if unit.owner is owner or unit.owner == owner else void).append(unit)
        if void:  # of an identity that was fenced
            self._void(void)
        return finished

    def _void(self, units: Sequence[UnitOfWork]) -> None:
        for unit in units:
            unit.sent = True
            _wake(unit)
        self._held.remove(units)
        self._answered.append((units, range(len(units))))

    def _keep_unsent(self, finished: Sequence[UnitOfWork], error: RedisFailure) -> None:
        self._dry = False
        ambiguous = isinstance(error, RedisUnavailable) and error.ambiguous
        for unit in finished:
            unit.sent = False
            unit.doubtful = unit.doubtful or ambiguous
        self._finished.extendleft(reversed(finished))
        self._stuck = bool(finished)
        if ambiguous:
            self.doubt(self._waiting.straggling_seconds if self._waiting.parking.waiting else 0.0)

    def _note_answered(self, finished: Sequence[UnitOfWork], result: Exchange) -> None:
        self._stuck = self._reconciler.due and bool(self._finished)
        self._exchanged_at = time.monotonic()
        self._pace.note(len(finished))
        self._low = self._pace.ahead // 2 if self._pace.ahead >= MANY else 0
        self._note_done(finished, result.gone)

    def _note_done(self, finished: Sequence[UnitOfWork], gone: Sequence[int]) -> None:
        if finished:
            for unit in finished:
                unit.sent = unit.settled = True
                if unit.waiter is not None:
                    _wake(unit)
            self._held.remove(finished)
            self._answered.append((finished, gone))

    def _take_in(self, result: Exchange, request: _Request) -> None:
        now, owner = request.at, request.owner
        popped = self._waiting.parking.take()
        # They came before those that the claim has found.
        units = [UnitOfWork(entry.queue, entry.raw, owner, now) for entry in popped if entry.owner == owner]
        units += [UnitOfWork(queue, raw, owner, now) for queue, raw in result.claimed]
        if not units:
            return
        self._held.add(units)
        self._waiting.found()
        if popped:
            units = self._kept(units, result.paused, request.order)
        self._ready.extend(units)
        if not self._ticking:
            self._wake_ticker()

    def _kept(self, units: list[UnitOfWork], paused: frozenset[str], order: Sequence[str]) -> list[UnitOfWork]:
        """What may start now, by priority. A park sees neither a pause nor a more important queue."""
        self._surplus.extend(unit for unit in units if unit.queue in paused)
        places = {queue: place for place, queue in enumerate(order)}
        units = sorted((unit for unit in units if unit.queue not in paused), key=lambda unit: places.get(unit.queue, 0))
        room = self._wanted()
        self._surplus.extend(units[room:])
        return units[:room]

    def _failed(self, error: RedisFailure) -> None:
        if isinstance(error, RedisUnavailable) and error.ambiguous:
            self.doubt()
        self._outage.noticed(error)
        self._quiet.wait(OUTAGE_SECONDS)

    def _reconcile(self) -> None:
        """Compare the lists with what is held; under the lead, and with every park called back."""
        self._collect()
        if self._waiting.parking.waiting or self._waiting.parking.brought:
            self._exchange(0)
        with self._turn:
            carried_out = self._reconciler.run(tuple(self._finished))
            for unit in carried_out:
                self._finished.remove(unit)
            self._note_done(carried_out, ())


def _wake(unit: UnitOfWork) -> None:
    """Let the thread go on that waits for the acknowledgement of ``unit``, if one does."""
    waiter = unit.waiter
    if waiter is not None:
        unit.waiter = None
        with suppress(RuntimeError):  # two were here at once
            waiter.release()


def _entry(unit: UnitOfWork) -> Entry:
    entry = unit.entry
    if entry is None:
        msg = "this unit was not claimed by the reliable fetcher"
        raise TypeError(msg)
    return entry
