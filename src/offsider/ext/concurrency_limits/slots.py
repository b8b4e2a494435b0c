"""Frees slots and lets parked jobs go on: at the end of a run, and once a second for what was left undone.

1. Whoever frees a slot resumes the next parked job of the class in the same breath.
2. The service of each process frees what its runs could not.
3. One process at a time looks after parked jobs, under a lease, once a second while there are any: a limit may have
   been raised, a class or a queue may go on, and a process may have died between two steps.
4. The same process frees, now and then even while nothing is parked, the slots of processes that are gone.
5. A process whose runs have lost their slots, because the server has lost what was written, takes them again.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure, RedisUnavailable
from offsider.core.payload import new_jid
from offsider.core.wording import counted
from offsider.ext.concurrency_limits import store
from offsider.storage.turns import hold_turn
from offsider.wiring.service import Loop

if TYPE_CHECKING:
    from collections.abc import Iterable

    from offsider.ext.concurrency_limits.store import Run
    from offsider.ext.concurrency_limits.table import Table
    from offsider.storage.redis import Redis
    from offsider.wiring.config import Config

logger = logging.getLogger("offsider")

TURN = "limits"
LOOK_SECONDS = 1.0
REPAIR_SECONDS = 15.0
LEASE_SECONDS = 3.0
MOST_WAITING = 100_000
MOST_ROUNDS = 50


class Slots:
    """The slots of one process's runs.

    Args:
        config: of the worker.
        table: says what the limits are.
    """

    def __init__(self, config: Config, table: Table) -> None:
        self._config = config
        self._table = table
        #: The runs that have slots, and the limits that their classes had in code.
        self._held: dict[Run, int] = {}
        self._left: deque[tuple[Run, int]] = deque(maxlen=MOST_WAITING)
        self._holder = new_jid()
        self._repair_at = 0.0
        self._is_out = False

    def hold(self, run: Run, declared: int) -> None:
        """A run has taken a slot."""
        self._held[run] = declared

    def leave(self, run: Run, declared: int) -> None:
        """Free the slot of a run, now or as soon as the server can be reached. Never raises."""
        self._held.pop(run, None)
        try:
            self._leave(run, run.name, declared)
        except Exception as error:  # noqa: BLE001  # the outcome of the job is not to be lost for this
            self._left.append((run, declared))
            self._config.handle_error(error, {"context": f"freeing a slot of {run.name}"})

    def resume(self, name: str, declared: int) -> None:
        """Let parked jobs of a class go on if slots are free; whoever looks next does it if this fails."""
        try:
            self._leave(None, name, declared)
        except RedisFailure as error:
            self._config.handle_error(error, {"context": f"resuming jobs of {name}"})

    def tick(self) -> float:
        """One look; the seconds until the next."""
        try:
            self._look()
            self._is_out = False
        except RedisUnavailable as error:
            if not self._is_out:  # once, and not each second until the server is back
                self._config.handle_error(error, {"context": "looking after concurrency limits"})
            self._is_out = True
        return LOOK_SECONDS

    def _look(self) -> None:
        redis = self._config.shared_redis()
        self.flush()
        settings = store.settings(redis)
        now = time.monotonic()
        self._table.refresh(settings, now)
        self._keep(redis)
        repairs = now >= self._repair_at
        if settings.parked or repairs:
            if hold_turn(redis, TURN, self._holder, LEASE_SECONDS):
                self._look_after({*settings.parked, *(store.active(redis) if repairs else ())}, redis)
            if repairs:
                self._repair_at = now + REPAIR_SECONDS

    def _keep(self, redis: Redis) -> None:
        held = dict(self._held)
        for run in store.missing(redis, list(held)):
            if run in self._held:
                store.keep(redis, run)
                if run not in self._held:  # it has ended meanwhile
                    self._leave(run, run.name, held[run])

    def flush(self) -> None:
        """Free the slots that could not be freed before. RedisUnavailable when the server is still away."""
        for _ in range(len(self._left)):
            run, declared = self._left.popleft()
            try:
                self._leave(run, run.name, declared)
            except RedisUnavailable:
                self._left.appendleft((run, declared))
                raise
            except RedisFailure:
                self._left.append((run, declared))

    def _look_after(self, names: Iterable[str], redis: Redis) -> None:
        now = self._config.clock.now()
        said = store.declared(redis, now)
        for name in sorted(names):
            freed = store.free_dead(redis, name)
            if freed:
                logger.warning("freed %s of %s whose processes are gone", counted(freed, "slot"), name)
            # What workers say is stronger than what this one knows: its program may be older than theirs.
            declared = said.get(name) or self._table.declared(name)
            for _ in range(MOST_ROUNDS):  # a limit may have been raised to thousands
                if self._leave(None, name, declared) < store.MOST_AT_ONCE:
                    break
            store.forget(redis, name)

    def _leave(self, run: Run | None, name: str, declared: int) -> int:
        redis = self._config.shared_redis()
        return store.leave(redis, run, name, declared, now_seconds=self._config.clock.now())


class SlotsService:
    """The thread, which leaves no slot taken at a clean end."""

    def __init__(self, slots: Slots, config: Config) -> None:
        self._slots = slots
        self._loop = Loop("offsider-concurrency-limits", slots.tick, on_error=config.handle_error)
        self.name = self._loop.name
        self.start = self._loop.start
        self.stop = self._loop.stop

    def join(self, timeout_seconds: float | None = None) -> bool:
        ended = self._loop.join(timeout_seconds)
        if ended:
            with suppress(RedisUnavailable):  # then others free them, once this process is gone
                self._slots.flush()
        return ended

    def wait_for_tick(self, number: int, timeout_seconds: float) -> bool:
        return self._loop.wait_for_tick(number, timeout_seconds)
