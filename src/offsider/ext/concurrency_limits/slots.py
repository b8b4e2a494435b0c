"""Resume held jobs when slots are free, and free abandoned slots.

1. The script that writes the outcome of a run frees its slot (an effect). It returns the number of held jobs of the
   class, and the service resumes the next one immediately; while a resumed job waits in its queue, the start of the
   last of them resumes the next ones. So jobs start in the order in which they were held.
2. While jobs are held, one process, under a lease, checks their groups every second: a limit may have been raised, a
   class or a queue may have been resumed, or a process may have died between two steps. It checks a group at its rate
   limit as soon as the limit allows the next start. A check handles up to 1,000 groups, those that have been due
   longest.
3. Every 15 seconds, even if no job is held, the same process frees the slots of dead processes. Each process frees the
   slots of its own runs that ended without a written outcome.
4. If the server lost data, for example in a failover, each process takes the slots of its runs again.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from offsider.config.installation import Installation
from offsider.core.errors import RedisUnavailable
from offsider.core.payload import new_jid
from offsider.core.wording import counted
from offsider.ext.concurrency_limits import store
from offsider.runtime.service import Loop
from offsider.storage.leases import hold_lease

if TYPE_CHECKING:
    from collections.abc import Iterable

    from offsider.config.config import Config
    from offsider.ext.concurrency_limits.store import Run
    from offsider.ext.concurrency_limits.table import Table
    from offsider.runtime.context import JobContext
    from offsider.storage.redis import Redis

logger = logging.getLogger("offsider")

LEASE = "limits"
LOOK_SECONDS = 1.0
#: Minimum time between two checks, however many starts rate limits allow.
LEAST_SECONDS = 0.05
REPAIR_SECONDS = 15.0
LEASE_SECONDS = 3.0


class Slots:
    """The slots of one process's runs.

    Args:
        here: the worker's server.
        table: the limits in force.
    """

    def __init__(self, here: Installation, table: Table) -> None:
        self._here = here
        self._table = table
        #: The runs that have slots.
        self._running: dict[Run, JobContext] = {}
        #: Slots of this process without a run, as of the previous repair.
        self._ended: set[Run] = set()
        #: Groups that had runs here since the previous repair but one.
        self._names: set[str] = set()
        self._process = ""
        #: Classes whose held jobs may be resumed, and their limits in code.
        self._resuming: dict[str, int] = {}
        self._loop: Loop | None = None
        self._holder = new_jid()
        self._look_at = self._repair_at = 0.0
        self._is_out = False
        #: Whether this process had the lease at its last check.
        self._leads = False

    def service(self, config: Config) -> Loop:
        """Create the service thread of a starting worker."""
        self._loop = Loop("offsider-concurrency-limits", self.tick, on_error=config.handle_error)
        return self._loop

    @contextmanager
    def occupy(self, run: Run, job: JobContext, declared: int) -> Generator[None]:
        """Track a run that has a slot. Its outcome frees the slot."""
        self._names.add(run.name)
        self._process = run.process
        self._running[run] = job
        effect = store.releasing(self._here.redis.keys, run, lambda held, _: self._freed(run.name, declared, held))
        job.effects += (effect,)
        try:
            yield
        finally:
            self._names.add(run.name)  # again, since `_free_ended` may have started a new set
            del self._running[run]

    def _freed(self, name: str, declared: int, held: int | None) -> None:
        if held != 0:
            self.resume_soon(name, declared)

    def resume_soon(self, name: str, declared: int) -> None:
        """Make the service resume held jobs of a class, if slots are free."""
        self._resuming[name] = declared
        if self._loop is not None:
            self._loop.wake()

    def tick(self) -> float:
        """Resume jobs of notified classes; once a second check all. Return the seconds until the next check."""
        now = time.monotonic()
        try:
            while self._resuming:
                name, declared = self._resuming.popitem()
                self._resume(name, declared, at_once=True)
            if now >= self._look_at:
                self._look_at = now + LOOK_SECONDS
                self.look()
            self._is_out = False
        except RedisUnavailable as error:
            if not self._is_out:  # report once, not every second of the outage
                self._here.config.handle_error(error, {"context": "checking concurrency limits"})
            self._is_out = True
        return LOOK_SECONDS if self._is_out else max(0.0, self._look_at - time.monotonic())

    def look(self) -> None:
        """Resume held jobs and repair slots."""
        redis = self._here.redis
        settings = store.settings(redis)
        now = time.monotonic()
        self._table.refresh(settings, now)
        self._keep(redis)
        repairs, next_seconds = now >= self._repair_at, settings.next_seconds
        if settings.due or repairs:
            self._leads = hold_lease(redis, LEASE, self._holder, LEASE_SECONDS)
            if self._leads:
                # In their order: a group that is not reached now comes first at the next check.
                names = dict.fromkeys((*settings.due, *(store.some_active(redis) if repairs else ())))
                next_seconds = min(next_seconds, self._look_after(names, redis))
            if repairs:
                self._free_ended(redis)
                self._repair_at = now + REPAIR_SECONDS
        if self._leads:
            self._look_at = min(self._look_at, time.monotonic() + max(LEAST_SECONDS, next_seconds))

    def _keep(self, redis: Redis) -> None:
        for run in store.missing(redis, [run for run, job in self._running.copy().items() if job.effects]):
            job = self._running.get(run)
            if job is not None and job.effects:
                store.keep(redis, run)
                if run not in self._running or not job.effects:  # it ended after the check above
                    store.release(redis, run)

    def _free_ended(self, redis: Redis) -> None:
        """Free slots of runs of this process that were void, so that no outcome freed them."""
        names, self._names = self._names, set()
        ended = {
            run
            for name in names.copy()
            for run, _ in store.runs(redis, name)
            if run.process == self._process and run not in self._running
        }
        for run in ended & self._ended:
            store.release(redis, run)
        self._ended = ended - self._ended
        self._names |= {run.name for run in (*self._running.copy(), *self._ended)}

    def _look_after(self, names: Iterable[str], redis: Redis) -> float:
        """Check these groups, and return the seconds until the first of them is due again."""
        now, next_seconds = self._here.config.clock.now(), math.inf
        reported = store.declared(redis, now)
        for name in names:
            freed = store.free_dead(redis, name)
            if freed:
                logger.warning("reclaimed %s of %s held by dead processes", counted(freed, "slot"), name)
            # Limits reported by workers win over the local code, which may be older.
            declared = reported.get(store.class_of(name)) or self._table.declared(store.class_of(name))
            self._resume(name, declared)
            next_seconds = min(next_seconds, store.forget(redis, name))
        return next_seconds

    def _resume(self, name: str, declared: int, *, at_once: bool = False) -> None:
        redis, now = self._here.redis, self._here.config.clock.now()
        store.resume(redis, name, declared, now_seconds=now, at_once=at_once)
