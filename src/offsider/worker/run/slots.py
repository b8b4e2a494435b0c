"""Hold jobs, resume them when slots are free, and free abandoned slots.

1. The script that writes the outcome of a run frees its slots (an effect). It returns the number of held jobs of its
   groups, and the service resumes the next one immediately; while a resumed job waits in its queue, the start of the
   last of them resumes the next ones. So jobs start in the order in which they were held.
2. While a process knows of held jobs, it tries to get a lease every second, under which one process checks their
   groups: a control may have ended, a queue may have been resumed, or a process may have died between two steps. It
   checks a group at its rate limit as soon as the limit allows the next start. A check handles up to 1,000 groups,
   those that have been due longest. A process knows of them if it has held a job or freed a slot of their group, after
   a change of the controls or pauses, and after step 3. One that stops changes the version of the controls.
3. Every 15 seconds, if any group has slots or held jobs, one process frees the slots of dead processes. Each process
   frees the slots of its own runs that ended without a written outcome.
4. If the server lost data, for example in a failover, each process takes the slots of its runs again.
5. While a group is known to be full, its jobs are held in batches: `hold_soon` collects them, and they stay in the
   private list until the service writes them.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from offsider.core.payload import new_jid
from offsider.core.wording import counted
from offsider.runtime.outage import Outage
from offsider.runtime.service import Loop
from offsider.storage import slots
from offsider.storage.controls import changed
from offsider.storage.leases import hold_lease
from offsider.storage.scripts import run_together

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.runtime.context import JobContext
    from offsider.storage.redis import Redis
    from offsider.storage.slots import Candidate, LimitedRun, SlotGroup
    from offsider.storage.working import PrivateListEntry
    from offsider.worker.controls import KnownControls
    from offsider.worker.run.control_rules import ControlRules

logger = logging.getLogger("offsider")

CHECK_SECONDS = 1.0
#: Minimum time between two checks, however many starts rate limits allow.
MIN_SECONDS = 0.05
REPAIR_SECONDS = 15.0
LEASE_SECONDS = 3.0
#: After a refused job, the jobs of its group are held in batches for this time.
FULL_SECONDS = 0.05
MAX_COLLECTED = 1_000


class Slots(Loop):
    """The slots and held jobs of one process.

    Args:
        redis: the worker's server.
        rules: the limits in force.
        controls: a change of them may end the hold of jobs.
    """

    def __init__(self, config: Config, redis: Redis, rules: ControlRules, controls: KnownControls) -> None:
        self._config = config
        self._redis = redis
        self._rules = rules
        self._controls = controls
        #: The runs that have slots.
        self._running: dict[LimitedRun, JobContext] = {}
        #: Runs of this process that had ended, but whose slots were not freed, at the previous repair.
        self._ended: frozenset[LimitedRun] = frozenset()
        self._had_slots: dict[LimitedRun, None] = {}
        self._resuming: dict[str, SlotGroup] = {}
        self._full_until: dict[str, float] = {}
        self._collected: dict[SlotGroup, list[tuple[Candidate, PrivateListEntry]]] = {}
        self._lock = threading.Lock()
        self._holder = new_jid()
        self._check_at = self._repair_at = 0.0
        self._outage = Outage("checking slots", config)
        #: Whether any job may be held, and the controls for which this is known.
        self._may_have_held = True
        self._seen: tuple[bytes, frozenset[str]] | None = None
        #: Whether this process had the lease at its last check.
        self._leads = False
        controls.to_hold = self._to_hold
        super().__init__("offsider-slots", self.tick, config.handle_error, finish=self._finish)

    @contextmanager
    def occupy(self, run: LimitedRun, job: JobContext) -> Generator[None]:
        """Track a run that has slots. Its outcome frees them."""
        self._running[run] = job
        job.effects += (slots.releasing(self._redis.keys, run, lambda held, _: self._freed(run, held)),)
        try:
            yield
        finally:
            self._had_slots[run] = None
            del self._running[run]

    def _freed(self, run: LimitedRun, held: int | None) -> None:
        self._had_slots.pop(run, None)
        if held != 0:
            for group in run.groups:
                self.resume_soon(group)

    def resume_soon(self, group: SlotGroup) -> None:
        """Make the service resume held jobs of a group, if slots are free."""
        self._resuming[group.name] = group
        self._may_have_held = True
        self.wake()

    # ------------------------------------------------------------------------------------ holding

    def note_full(self, group: SlotGroup) -> None:
        """Note that a job of a group was just held."""
        self._full_until[group.name] = time.monotonic() + FULL_SECONDS
        self._may_have_held = True

    def hold_soon(self, run: LimitedRun, job: Candidate) -> bool:
        """Hold a job of a group that was full a moment ago; False if the caller must ask for its slots.

        A resumed job must ask: a slot may be reserved for it.
        """
        if job.entry is None:
            return False
        with self._lock:
            full = next((group for group in run.groups if self._is_full(group)), None)
            if full is None or len(self._collected.get(full, ())) >= MAX_COLLECTED:
                return False
            self._collected.setdefault(full, []).append((job, job.entry))
        self.wake()
        return True

    def _is_full(self, group: SlotGroup) -> bool:
        # While others wait to be written, a job that asked for itself would overtake them.
        return group in self._collected or self._full_until.get(group.name, 0.0) > time.monotonic()

    def _to_hold(self) -> list[PrivateListEntry]:
        with self._lock:
            return [entry for jobs in self._collected.values() for _, entry in jobs]

    def _write_collected(self) -> None:
        """Hold the collected jobs. Until the reply they stay collected: a failed batch is repeated."""
        while self._collected:
            with self._lock:
                group, jobs = next(iter(self._collected.items()))
                batch = jobs[: slots.BATCH]
            _, is_free = slots.hold(self._redis, batch[0][1].owner.identity, group, batch)
            with self._lock:
                del jobs[: len(batch)]
                if not jobs:
                    del self._collected[group]
            if is_free:
                self._resuming[group.name] = group

    def _finish(self) -> None:
        self._write_collected()
        if self._may_have_held:
            run_together(self._redis, *changed(self._redis.keys))

    # ----------------------------------------------------------------------------------- resuming

    def tick(self) -> float:
        """Resume jobs of notified groups; once a second check all. Return the seconds until the next check."""
        with self._outage:
            self._write_collected()
            while self._resuming:
                _, group = self._resuming.popitem()
                self._resume(group, at_once=True)
            now = time.monotonic()
            if now >= self._check_at:
                self._check_at = now + CHECK_SECONDS
                self.check()
            return max(0.0, self._check_at - time.monotonic())
        self._may_have_held, self._repair_at = True, 0.0  # repeat the whole check
        return CHECK_SECONDS

    def check(self) -> None:
        """Resume held jobs and repair slots."""
        redis, now = self._redis, time.monotonic()
        self._keep()
        seen = self._controls.version, self._controls.paused
        if seen != self._seen:
            self._seen, self._may_have_held = seen, True
        repaired: list[str] = []
        if now >= self._repair_at:
            self._free_ended()
            self._repair_at, repaired = now + REPAIR_SECONDS, slots.some_groups(redis)
        if not (self._may_have_held or repaired):
            return
        self._may_have_held = False  # first: a thread may hold a job meanwhile
        due = slots.due_groups(redis)
        next_seconds = due.next_seconds
        if due.names or repaired:
            self._leads = hold_lease(redis, slots.LEASE, self._holder, LEASE_SECONDS)
            if self._leads:
                # In their order: a group that is not reached now comes first at the next check.
                next_seconds = min(next_seconds, self._check_groups(dict.fromkeys((*due.names, *repaired))))
        if due.names or next_seconds < math.inf:
            self._may_have_held = True
        if self._leads:
            self._check_at = min(self._check_at, time.monotonic() + max(MIN_SECONDS, next_seconds))

    def _keep(self) -> None:
        runs = [run for run, job in self._running.copy().items() if job.effects]
        for run in slots.missing(self._redis, runs):
            job = self._running.get(run)
            if job is not None and job.effects:
                slots.keep(self._redis, run)
                if run not in self._running or not job.effects:  # it ended after the check above
                    slots.release(self._redis, run)

    def _free_ended(self) -> None:
        """Free the slots of runs of this process that were void, so that no outcome freed them."""
        ended = frozenset(self._had_slots.copy())
        for run in ended & self._ended:
            slots.release(self._redis, run)
            self._had_slots.pop(run, None)
        self._ended = ended

    def _check_groups(self, names: Iterable[str]) -> float:
        """Check these groups, and return the seconds until the first of them is due again."""
        next_seconds = math.inf
        if names:
            self._rules.read_reported()
        for name in names:
            freed = slots.free_dead(self._redis, name)
            if freed:
                logger.warning("reclaimed %s of %s held by dead processes", counted(freed, "slot"), name)
            group = self._rules.group(name)
            self._resume(group)
            next_seconds = min(next_seconds, slots.forget(self._redis, group))
        return next_seconds

    def _resume(self, group: SlotGroup, *, at_once: bool = False) -> None:
        slots.resume(self._redis, group, now_seconds=self._config.clock.now(), at_once=at_once)
