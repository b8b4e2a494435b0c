"""Frees locks whose job is nowhere: its process died between the end of the run and the release, somebody else ran or
deleted the job, or a queue was dropped.

One process at a time does it, under a lease, in steps of bounded work:

1. Note locks that are old enough, and when the job of each last moved: took its lock or began to run.
2. Walk through every place where a job can be (see `places`), and cross off the jobs that are met. Usually they are
   soon all met, and the walk ends.
3. Walk once more for those that were not met.
4. Free the locks that are left, each only if its job has not moved meanwhile.

An older lock is not a worse one: jobs may wait for days. Nothing is ever freed for its age.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from offsider.core.payload import new_jid
from offsider.core.wording import counted
from offsider.ext.unique import places, store
from offsider.storage import clocks
from offsider.storage.turns import hold_turn
from offsider.wiring.service import Loop

if TYPE_CHECKING:
    from offsider.storage.redis import Redis
    from offsider.wiring.config import Config

logger = logging.getLogger("offsider")

TURN = "unique"
LEASE_SECONDS = 15.0
PAUSE_SECONDS = 0.1
#: Steps of a walk in one tick, and locks that are looked for in one pass.
STEPS_PER_TICK = 10
MOST_LOCKS = 5_000
WALKS = 2


class Reaper:
    """Looks for locks without a job, a few steps a tick.

    Args:
        redis: where the locks are.
        age_seconds: younger locks, and those whose job began to run so lately, are left alone.
    """

    def __init__(self, redis: Redis, *, age_seconds: float) -> None:
        self._redis = redis
        self._age_seconds = age_seconds
        self._holder = new_jid()
        self._missing: dict[str, store.Held] = {}
        self._walk: Iterator[set[str]] | None = None
        self._walks_left = 0
        self._pages = store.pages(redis)

    def tick(self) -> float:
        """A few steps; the seconds until the next."""
        if not hold_turn(self._redis, TURN, self._holder, LEASE_SECONDS):
            self._walk = None
            return LEASE_SECONDS
        if self._walk is not None or self._begin():
            self._go_on()
        if self._walk is not None:
            return PAUSE_SECONDS
        # The turn is kept until the next pass: else each process would have one of its own meanwhile.
        hold_turn(self._redis, TURN, self._holder, self._pause_seconds + LEASE_SECONDS)
        return self._pause_seconds

    def run(self) -> int:
        """A whole pass over as many locks as one takes, without a pause; answers how many were freed."""
        freed = 0
        if self._begin():
            while self._walk is not None:
                freed += self._go_on()
        return freed

    @property
    def _pause_seconds(self) -> float:
        return max(PAUSE_SECONDS, self._age_seconds)

    def _begin(self) -> bool:
        """Choose the locks of this pass; False when none is old enough."""
        before_ms = (clocks.look(self._redis)[0] - self._age_seconds) * 1000
        self._missing = {}
        while len(self._missing) < MOST_LOCKS:
            page = next(self._pages, None)
            if page is None:
                self._pages = store.pages(self._redis)
                break
            self._missing |= {lock.jid: lock for lock in page if lock.moved_ms <= before_ms}
        self._walks_left = WALKS
        self._walk = places.walk(self._redis) if self._missing else None
        return self._walk is not None

    def _go_on(self) -> int:
        """Some steps of the walk; answers how many locks were freed at its end."""
        assert self._walk is not None  # noqa: S101  # both callers have made sure
        steps = 0
        for met in islice(self._walk, STEPS_PER_TICK):
            steps += 1
            for jid in met & self._missing.keys():
                del self._missing[jid]
        if not self._missing:
            self._walk = None
            return 0
        if steps == STEPS_PER_TICK:
            return 0
        self._walks_left -= 1
        self._walk = places.walk(self._redis) if self._walks_left else None
        return self._free() if self._walk is None else 0

    def _free(self) -> int:
        freed = 0
        for jid, lock in self._missing.items():
            if store.release(self._redis, lock.lock, jid, moved=lock.moved) == store.FREED:
                freed += 1
                logger.warning("freed the lock of job %s (%s), which is nowhere any more", jid, lock.name)
        self._missing = {}
        if freed:
            logger.info("freed %s of jobs that are gone", counted(freed, "lock"))
        return freed


def make_service(config: Config, age_seconds: float) -> Loop:
    """The thread of a worker that reaps."""
    reaper = Reaper(config.shared_redis(), age_seconds=age_seconds)
    return Loop("offsider-unique-reaper", reaper.tick, on_error=config.handle_error)
