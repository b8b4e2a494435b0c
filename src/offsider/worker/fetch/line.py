"""The round trips of one capsule: each acknowledges finished jobs and may claim new ones.

1. `Line.ack_and_claim` waits for its reply. `Line.ask` only writes a request; `Line.collect` reads the oldest reply.
   These requests use one connection, so replies arrive in order. Close to the server one request is pending at a
   time; at a distance (`DISTANT_SECONDS`) up to `MOST_UNDER_WAY`, so that threads do not wait for the network.
2. Only the thread with the turn makes a request or reads a reply. To claim, a thread needs the lead as well.
3. If a reply is lost, its request and all later ones on the same connection are in doubt. Their acknowledgements are
   kept, and the private lists are compared (`Reconciler`) before the next request.
4. If the identity was fenced, its finished and unstarted jobs belong to other processes, and are void here.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from offsider.core.errors import Fenced, RedisFailure, RedisRefused, RedisUnavailable
from offsider.storage import working
from offsider.storage.effects import EffectCalls
from offsider.storage.pipelined import Pipelined
from offsider.worker.fetch.requests import ClaimSize, Request

if TYPE_CHECKING:
    from offsider.storage.working import ClaimReply, Owner
    from offsider.worker.fetch.fetcher import FetcherContext
    from offsider.worker.fetch.state import FetcherState

#: Maximum number of requests without a reply, for a distant server.
MOST_UNDER_WAY = 16
#: Delay of the second comparison: the server may still execute a command of a connection that was closed here.
SECOND_LOOK_SECONDS = 7.0

NOTHING = working.ClaimReply((), (), working.NOT_PAUSED, "")


class Line:
    """The requests of one capsule.

    Args:
        arrived: called with each reply to a claim, by the thread that has the turn.

    Attributes:
        claims: computes how many jobs to claim.
        last: the reply to the last claim.
        dry: the last claim emptied the queues, so the leading thread may sleep without another claim.
        answered_at: time of the last reply in monotonic seconds.
    """

    def __init__(
        self,
        context: FetcherContext,
        state: FetcherState,
        arrived: Callable[[Request, ClaimReply], None],
    ) -> None:
        self._context = context
        self._state = state
        self._wait = state.wait
        self._idle = state.idle
        self._arrived = arrived
        self._turn = threading.Lock()
        self._wire = Pipelined(context.redis)
        self._under_way: deque[Request] = deque()
        self._owner = context.ownership.owner(context.capsule.name)
        self._rebuilding = False
        self.claims = ClaimSize(context, state, self._under_way)
        self.last = NOTHING
        self.dry = False
        self.answered_at = 0.0

    # --- pending requests -------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a round trip is pending that may still deliver a job."""
        return self._turn.locked() or bool(self._under_way)

    @property
    def under_way(self) -> bool:
        """Whether there are replies to collect."""
        return bool(self._under_way)

    @property
    def full(self) -> bool:
        """Whether a reply must be read before the next request."""
        return len(self._under_way) >= (MOST_UNDER_WAY if self.claims.prefetch.far else 1)

    def waits_since(self, moment: float) -> bool:
        """Return whether the oldest unread reply belongs to a request written before this moment."""
        try:
            return self._under_way[0].at < moment
        except IndexError:
            return False

    def may_claim(self) -> bool:
        """Return whether jobs may be claimed and started now."""
        return not self._state.quiet.is_set() and self._context.claims_allowed()

    def wanted(self, more: int = 0) -> int:
        """Return how many jobs to claim next."""
        # Checked with the turn, so that `busy` shows this claim to others.
        return self.claims.wanted(more) if self.may_claim() else 0

    # --- requests ---------------------------------------------------------------------------------

    def ack_and_claim(self, *, claim: bool = True, leading: bool = True) -> ClaimReply:
        """Make one round trip: acknowledge finished jobs, claim the wanted number, and call waiting pops back.

        Args:
            leading: the caller has the lead. Other threads only acknowledge: claims and pops need the lead.

        Raises:
            RedisFailure: the round trip failed.
        """
        if leading:
            self.collect_all()
        with self._turn:
            request = self._request(self.wanted() if claim else 0, leading=leading)
            pops = self._wait.pops if leading and self._wait.pops.waiting else None
            redis = self._context.redis
            try:
                return self._answered(
                    request,
                    lambda: working.ack_and_claim(
                        redis,
                        request.owner,
                        request.order,
                        request.limit,
                        request.done,
                        effects=request.effects,
                        pops=pops,
                    ),
                    timed=pops is None,
                )
            except RedisFailure as error:
                self._keep(request, error)
                raise

    def ask(self, more: int = 0) -> None:
        """Write the next request; `collect` reads its reply. The caller has the lead, and the line is not `full`.

        Args:
            more: number of threads to claim for in addition to the idle ones.

        Raises:
            RedisFailure: the request could not be written.
        """
        if self._rebuilding and not self._under_way:
            self._rebuilding = False
            self._wire.close()
        with self._turn:
            request = self._request(self.wanted(more), leading=True)
            try:
                self._wire.ask(request.owner, request.order, request.limit, request.done, request.effects)
            except RedisFailure as error:
                self._keep(request, error)
                raise
            self._state.unacknowledged.mark_sent(request.finished)
            self._under_way.append(request)
            self.claims.set_low(line_is_full=self.full)

    def collect(self) -> ClaimReply | None:
        """Read the oldest reply; None if none is pending. The caller has the lead.

        Raises:
            RedisFailure: the reply was lost, or the server refused the request.
        """
        if not self._under_way:
            return None
        with self._turn:
            request = self._under_way.popleft()
            try:
                return self._answered(request, lambda: self._wire.answer(request.order, request.effects))
            except RedisFailure as error:
                self._keep(request, error)
                # Nothing was executed, for example after a restart of the server. The next request sends the script.
                if not isinstance(error, RedisRefused) or error.code != "NOSCRIPT":
                    raise
                self._state.unacknowledged.stuck = False
                return None

    def collect_arrived(self) -> None:
        """Read the replies that have arrived, without waiting. The caller has the lead."""
        while self._under_way and self._wire.readable:
            self.collect()

    def collect_all(self) -> None:
        """Read all replies. The caller has the lead."""
        while self._under_way:
            self.collect()

    def compare(self) -> None:
        """Compare the private lists with the jobs in flight. The caller has the lead and has collected all replies."""
        unacknowledged = self._state.unacknowledged
        with self._turn:
            # An atomic copy: other threads append concurrently.
            unacknowledged.remove(self._state.reconciler.run(unacknowledged.unsent.copy()))

    def note_start(self) -> None:
        """Record that jobs start without a round trip; jobs finished before the sleep no longer count for the rate."""
        self.answered_at = time.monotonic()
        self.dry = False  # their queues may contain more
        if self._turn.acquire(blocking=False):  # otherwise a round trip is under way, which records its own
            try:
                self.claims.prefetch.note(0)
            finally:
                self._turn.release()

    def owner(self) -> Owner:
        """Return the current owner of the private lists."""
        ownership = self._context.ownership
        if self._owner.identity is not ownership.identity:
            self._owner = ownership.owner(self._context.capsule.name)
        return self._owner

    def doubt(self, again_after_seconds: float = 0.0) -> None:
        """Compare the lists before the next claim, and again a little later, because a reply was lost."""
        self._state.reconciler.doubt(max(SECOND_LOOK_SECONDS, again_after_seconds))
        self._wait.wake()

    def rebuild(self) -> None:
        """Use a new connection as soon as no reply is pending."""
        self._rebuilding = True

    def close(self) -> None:
        self._wire.close()

    # --- with the turn ----------------------------------------------------------------------------

    def _request(self, limit: int, *, leading: bool) -> Request:
        context, owner = self._context, self.owner()
        order = context.capsule.fetch_order(context.config.random) if leading else ()
        # Before a comparison nothing is acknowledged: the server may have executed the acknowledgement already.
        finished = () if self._state.reconciler.due else self._state.unacknowledged.take(owner)
        self.claims.note_finished(finished)
        effects = [one.disposition.effects for one in finished]
        calls = EffectCalls(effects, [one.unit.jid for one in finished]) if any(effects) else None
        return Request(owner, finished, order, limit, time.monotonic(), leading, calls)

    def _answered(self, request: Request, ask: Callable[[], ClaimReply], *, timed: bool = True) -> ClaimReply:
        began, idle = time.monotonic(), self._idle.count
        state = self._state
        try:
            result = ask()
        except Fenced:
            state.unacknowledged.confirm(request.finished, range(len(request.finished)))
            # Other processes own the unstarted jobs as well.
            state.in_flight.remove(state.prefetched.take_of(request.owner))
            self.dry = False
            with suppress(RedisFailure):  # the next request is refused as well, and renews it
                self._context.ownership.renew(request.owner.identity)
            return NOTHING
        self.answered_at = now = time.monotonic()
        if request.effects is not None:
            for one, replies in zip(request.finished, request.effects.by_job(result.replies), strict=True):
                one.replies = replies
        state.unacknowledged.confirm(request.finished, result.gone)
        state.unacknowledged.stuck = state.reconciler.due and bool(state.unacknowledged.unsent)
        self.claims.note_wait(now - began, idle)
        if timed and now - began > (now - request.at) / 2:  # otherwise the reply arrived before it was read
            self.claims.prefetch.note_round_trip(now - request.at, len(request.finished) + len(result.claimed))
        if result.claimed:
            self.claims.prefetch.note_payloads(sum([len(raw) for _, raw in result.claimed]), len(result.claimed))
        self._context.controls.note_version(result.version)
        if request.leading:
            request.at = now
            self.last, self.dry = result, not result.refused and 0 < request.limit > len(result.claimed)
            self._arrived(request, result)
        self.claims.set_low(line_is_full=self.full)
        return result

    def _keep(self, request: Request, error: RedisFailure) -> None:
        """Keep the acknowledgements of a failed request for the next one.

        If its connection is closed, keep the jobs of its other pending requests, too.
        """
        self.dry = False
        unacknowledged = self._state.unacknowledged
        ambiguous = isinstance(error, RedisUnavailable) and error.ambiguous
        if not self._wire.awaits:  # its connection is closed, and all replies are lost
            ambiguous = ambiguous or bool(self._under_way)
            while self._under_way:
                unacknowledged.keep(self._under_way.pop().finished, doubtful=True)
        unacknowledged.keep(request.finished, doubtful=ambiguous)
        if ambiguous:
            self.doubt(self._wait.straggling_seconds if self._wait.pops.waiting else 0.0)
