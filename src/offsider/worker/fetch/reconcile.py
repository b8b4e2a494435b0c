"""Compares the private lists with the jobs in flight after a reply was lost (rules 5 and 8).

"Listed" jobs are in the private lists; "held" jobs are in flight, by the fetcher's own record.

1. `doubt` schedules a comparison, and a second one after the server can no longer serve the lost connection.
2. `run` compares the payloads. Equal counts would prove nothing: a lost reply can add a listed job while another job
   is already settled at the server and still held here.
3. An acknowledgement without a reply was executed if fewer equal copies are listed than held.
4. A job that is listed but not held is requeued, without a strike, because no process died.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from offsider.core.errors import Fenced, RedisRefused
from offsider.core.wording import counted
from offsider.storage import working

if TYPE_CHECKING:
    from offsider.storage.working import Owner, PrivateListEntry
    from offsider.worker.fetch.fetcher import FetcherContext
    from offsider.worker.fetch.in_flight import InFlight
    from offsider.worker.fetch.unacknowledged import Finished

logger = logging.getLogger("offsider")

#: Number of consecutive beats with more jobs listed than held that triggers a comparison.
MISMATCHES = 2
#: Interval of the counts while nothing is in flight: lost replies are found by `doubt`, not by them.
IDLE_SECONDS = 60.0


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
        #: `doubt` or read `due`.
        self._at: tuple[float, ...] = ()
        self._scheduling = threading.Lock()
        self._mismatches = 0
        self._idle_until = 0.0

    @property
    def due(self) -> bool:
        at = self._at
        return bool(at) and at[0] <= time.monotonic()

    def doubt(self, again_after_seconds: float) -> None:
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
        listed = working.count(self._redis, owner, self._ownership.registered(self._capsule.name))
        self._mismatches = self._mismatches + 1 if listed > self._in_flight.of(owner.identity).total() else 0
        if self._mismatches < MISMATCHES:
            return False
        self._mismatches = 0
        return True

    def run(self, finished: Iterable[Finished]) -> list[Finished]:
        """Compare. The caller ensures that no claim is unanswered, and that no thread claims or acknowledges.

        Args:
            finished: jobs whose acknowledgement has not been confirmed.

        Returns:
            Jobs among them whose acknowledgement was executed although its reply was lost.
        """
        asked = self._at
        owner = self._ownership.owner(self._capsule.name)
        queues = self._ownership.registered(self._capsule.name)
        # Read the held jobs first: then a job that is settled during the comparison does not look like a lost one.
        held = self._in_flight.of(owner.identity)
        # A job that waits for its batch must not return to its queue: it would be held while it runs.
        held.update(entry for entry in self._controls.to_hold() if entry.owner.identity == owner.identity)
        listed = Counter(working.contents(self._redis, owner, queues))
        doubtful = [one for one in finished if one.doubtful]
        carried_out = self._carried_out(doubtful, held, listed)
        self._give_back(owner, list((listed - held).elements()))
        # Last, so that a comparison that failed half-way is repeated.
        for one in doubtful:
            one.doubtful = False
        with self._scheduling:
            if self._at is asked:  # otherwise `doubt` was called during this comparison and needs another one
                self._at = asked[1:]
        return carried_out

    def _carried_out(
        self, doubtful: Iterable[Finished], held: Counter[PrivateListEntry], listed: Counter[PrivateListEntry]
    ) -> list[Finished]:
        found: list[Finished] = []
        for one in doubtful:
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
