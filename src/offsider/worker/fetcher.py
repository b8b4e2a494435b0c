"""The reliable fetcher: jobs move into private lists and stay there until their outcome is written.

The life of a claim:

1. Idle threads call `retrieve`. One of them takes the lead, the others wait for it.
2. The leader runs one script that moves as many jobs as threads wait, in the order of the capsule's
   mode, and hands them out through ``_ready``.
3. When there was nothing, the leader waits a little longer each time, up to 50 ms, and looks again.
4. A failure of Redis is reported once; the leader then tries once a second until the server is back.
5. After an ambiguous failure the private lists are compared with what is held, before the next claim:
   jobs that the lost reply named go back to their queue.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from offsider.core.errors import Fenced, RedisFailure, RedisRefused, RedisUnavailable
from offsider.storage import working
from offsider.worker.held import Held
from offsider.worker.outage import Outage
from offsider.worker.unit_of_work import UnitOfWork

if TYPE_CHECKING:
    from offsider.storage.working import Entry, Owner
    from offsider.wiring.capsule import Capsule
    from offsider.wiring.config import Config
    from offsider.worker.ownership import Ownership

logger = logging.getLogger("offsider")

IDLE_FIRST_SECONDS = 0.001
IDLE_MOST_SECONDS = 0.05
OUTAGE_SECONDS = 1.0

#: The server may still carry out a command of a connection that we gave up.
SECOND_LOOK_SECONDS = 7.0


class ReliableFetcher:
    """Fetches for one capsule. See the head of this file for the life of a claim."""

    def __init__(self, config: Config, capsule: Capsule, ownership: Ownership) -> None:
        self._config = config
        self._capsule = capsule
        self._redis = capsule.redis
        self._ownership = ownership
        self._outage = Outage(f"fetcher of capsule {capsule.name}", config)
        self._lead = threading.Lock()
        self._ready: deque[UnitOfWork] = deque()
        self._held = Held()
        self._quiet = threading.Event()
        self._hungry = 0
        self._seats = threading.Lock()
        self._idle_seconds = IDLE_FIRST_SECONDS
        self._reconcile_at: list[float] = []
        self._mismatches = 0

    # --- the seam -------------------------------------------------------------------------------

    def retrieve(self) -> UnitOfWork | None:
        """The next job; waits for one. None once the fetcher is quiet."""
        with self._seats:
            self._hungry += 1
        try:
            while True:
                if self._quiet.is_set():
                    # What a claim that was under way still brings goes back unrun, by whoever leaves last.
                    break
                unit = self._take_ready()
                if unit is not None:
                    return unit
                with self._lead:
                    if not self._ready and not self._quiet.is_set():
                        self._fetch()
        except BaseException:
            self._leave_unfed()
            raise
        self._leave_unfed()
        return None

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
        self._quiet.set()

    # --- keeping count ---------------------------------------------------------------------------

    def release(self, unit: UnitOfWork) -> None:
        """The outcome of this unit is known: it is no longer held."""
        unit.settled = True
        self._held.remove(_entry(unit))

    def still_mine(self, unit: UnitOfWork) -> bool:
        """Whether a settle without a reply has to be sent again.

        It has when the list holds as many equal copies as are held here: then none was removed (rule 5).
        """
        entry = _entry(unit)
        return working.copies(self._redis, entry) >= self._held.copies(entry)

    def doubt(self) -> None:
        """A reply was lost: compare the lists before the next claim, and once more a little later."""
        now = time.monotonic()
        self._reconcile_at = [now, now + SECOND_LOOK_SECONDS]

    def audit(self) -> None:
        """Called at each beat: two beats in a row that find more jobs listed than held cause a comparison."""
        owner = self._ownership.owner(self._capsule.name)
        listed = working.count(self._redis, owner, self._capsule.queues)
        self._mismatches = self._mismatches + 1 if listed > self._held.of(owner.identity).total() else 0
        if self._mismatches >= 2:
            self._mismatches = 0
            self.doubt()

    # --- the leader --------------------------------------------------------------------------------

    def _take_ready(self) -> UnitOfWork | None:
        # One step with the count: a leader that counted a thread which is served already would claim a job
        # that nobody is free to run.
        with self._seats:
            if not self._ready:
                return None
            self._hungry -= 1
            return self._ready.popleft()

    def _leave_unfed(self) -> None:
        with self._seats:
            self._hungry -= 1
            last = self._hungry == 0
        if last:
            self._give_back_ready()

    def _give_back_ready(self) -> None:
        units = list(self._ready)
        self._ready.clear()
        if units:
            try:
                self.bulk_requeue(units)
            except RedisFailure as error:
                # They stay in our lists, where the next sweep finds them.
                self._config.handle_error(error, {"context": "giving back jobs that had not started"})

    def _fetch(self) -> None:
        try:
            if self._reconcile_at and self._reconcile_at[0] <= time.monotonic():
                self._reconcile()
            entries = self._claim()
        except RedisFailure as error:
            self._failed(error)
            return
        self._outage.over()
        if entries:
            self._idle_seconds = IDLE_FIRST_SECONDS
            self._ready.extend(UnitOfWork(entry.queue, entry.raw, entry) for entry in entries)
        else:
            self._quiet.wait(self._idle_seconds)
            self._idle_seconds = min(self._idle_seconds * 2, IDLE_MOST_SECONDS)

    def _claim(self) -> list[Entry]:
        queues = self._capsule.fetch_order(self._config.random)
        if not queues:
            return []
        owner = self._ownership.owner(self._capsule.name)
        limit = min(self._hungry, working.BATCH)
        try:
            entries = working.claim(self._redis, owner, queues, limit)
        except Fenced:
            self._ownership.renew(owner.identity)
            return []
        self._held.add(entries)
        return entries

    def _failed(self, error: RedisFailure) -> None:
        if isinstance(error, RedisUnavailable) and error.ambiguous:
            self.doubt()
        self._outage.noticed(error)
        self._quiet.wait(OUTAGE_SECONDS)

    def _reconcile(self) -> None:
        """Give back what lies in our lists but is not held: the claims whose reply was lost.

        Runs under the lead, so no claim is under way. What is held is read first: a job settled meanwhile
        is then known, and not taken for a lost one.
        """
        owner = self._ownership.owner(self._capsule.name)
        queues = self._capsule.queues
        held = self._held.of(owner.identity)
        if working.count(self._redis, owner, queues) != held.total():
            unknown: list[Entry] = []
            for entry in working.contents(self._redis, owner, queues):
                if held[entry] > 0:
                    held[entry] -= 1
                else:
                    unknown.append(entry)
            self._give_back_unknown(owner, unknown)
        self._reconcile_at.pop(0)

    def _give_back_unknown(self, owner: Owner, unknown: Sequence[Entry]) -> None:
        try:
            working.put_back(self._redis, [(entry, entry.raw) for entry in reversed(unknown)])
        except Fenced:
            # Then whoever fenced us gives them back.
            self._ownership.renew(owner.identity)
        except RedisRefused as error:
            # One queue that takes no jobs must not end all claims; the next beats find its job again.
            self._config.handle_error(error, {"context": "giving back jobs whose claim had lost its reply"})
        else:
            if unknown:
                logger.warning("gave back %d jobs whose claim had lost its reply", len(unknown))


def _entry(unit: UnitOfWork) -> Entry:
    if unit.entry is None:
        msg = "this unit was not claimed by the reliable fetcher"
        raise TypeError(msg)
    return unit.entry
