"""Frees locks whose job is nowhere: its process died between the end of the run and the release, somebody else ran or
deleted the job, or a queue was dropped.

One process at a time does it, under a lease, in steps of bounded work:

1. Note locks that are old enough, and when the job of each last moved: took its lock or began to run.
2. Walk through every place where a job can be (see `places`), and cross off the jobs that are met. Usually they are
   soon all met, and the walk ends.
3. Walk once more for those that were not met.
4. Free the locks that are left, each only if its job has not moved meanwhile.

A job may be on its way from another server to this one. So while another server does not answer nothing is freed.

An older lock is not a worse one: jobs may wait for days. Nothing is ever freed for its age.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure
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
#: Steps of a walk in one tick; pages of locks that are looked at in one; and locks that are looked for in one pass.
STEPS_PER_TICK = 10
PAGES_PER_TICK = 20
MOST_LOCKS = 20_000
WALKS = 2


class Reaper:
    """Looks for locks without a job, a few steps a tick.

    Args:
        redis: where the locks are.
        age_seconds: younger locks, and those whose job began to run so lately, are left alone.
        others: the other servers, from which a migration may be bringing jobs.
    """

    def __init__(self, redis: Redis, *, age_seconds: float, others: Callable[[], Sequence[Redis]] = tuple) -> None:
        self._redis = redis
        self._age_seconds = age_seconds
        self._others = others
        self._is_alone = False
        self._holder = new_jid()
        self._missing: dict[str, store.Held] = {}
        self._walk: Iterator[set[str]] | None = None
        self._walks_left = 0
        self._pages = store.pages(redis)
        self._choosing = self._all_seen = False

    def tick(self) -> float:
        """A few steps; the seconds until the next."""
        if not hold_turn(self._redis, TURN, self._holder, LEASE_SECONDS):
            self._abandon()
            return LEASE_SECONDS
        if not self._others_answer():
            self._abandon()
            return LEASE_SECONDS
        try:
            if self._is_under_way():
                return PAUSE_SECONDS
        except BaseException:
            self._abandon()  # a walk that broke off has not been everywhere
            raise
        # The turn is kept until the next pass: else each process would have one of its own meanwhile.
        hold_turn(self._redis, TURN, self._holder, self._pause_seconds + LEASE_SECONDS)
        return self._pause_seconds

    def _others_answer(self) -> bool:
        try:
            for server in self._others():
                clocks.look(server)
        except RedisFailure as error:
            if not self._is_alone:
                logger.warning("no lock is freed until the other servers answer, where its job may be: %s", error)
            self._is_alone = True
            return False
        self._is_alone = False
        return True

    def _is_under_way(self) -> bool:
        """Go on with the pass; False when it is over."""
        if self._walk is None and not self._choose():
            return True
        if self._walk is not None:
            self._go_on()
        return self._walk is not None

    def _abandon(self) -> None:
        self._walk, self._choosing, self._pages = None, False, store.pages(self._redis)

    def run(self) -> int:
        """Look through all locks without a pause; answers how many were freed."""
        freed = 0
        while True:
            while not self._choose():
                pass
            while self._walk is not None:
                freed += self._go_on()
            if self._all_seen:
                return freed

    @property
    def _pause_seconds(self) -> float:
        return max(PAUSE_SECONDS, self._age_seconds)

    def _choose(self) -> bool:
        """Look at some more locks for this pass; True when that is over, and the walk begins if any is old enough."""
        if not self._choosing:
            self._choosing, self._missing = True, {}
        before_ms = (clocks.look(self._redis)[0] - self._age_seconds) * 1000
        for _ in range(PAGES_PER_TICK):
            page = next(self._pages, None)
            if page is None:
                self._pages = store.pages(self._redis)
                return self._chosen(all_seen=True)
            self._missing |= {lock.jid: lock for lock in page if lock.moved_ms <= before_ms}
            if len(self._missing) >= MOST_LOCKS:
                return self._chosen(all_seen=False)
        return False

    def _chosen(self, *, all_seen: bool) -> bool:
        self._choosing, self._all_seen = False, all_seen
        self._walks_left = WALKS
        self._walk = self._new_walk() if self._missing else None
        return True

    def _new_walk(self) -> Iterator[set[str]]:
        return places.walk(self._redis, others=self._others())

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
        self._walk = self._new_walk() if self._walks_left else None
        return self._free() if self._walk is None else 0

    def _free(self) -> int:
        freed = 0
        for jid, lock in self._missing.items():
            if store.release(self._redis, lock.lock, jid, moved=lock.moved) == store.FREED:
                freed += 1
                logger.info("freed the lock of job %s (%s), which is nowhere any more", jid, lock.name)
        self._missing = {}
        if freed:
            logger.warning("freed %s whose jobs are nowhere any more", counted(freed, "lock"))
        return freed


def other_servers(config: Config) -> Sequence[Redis]:
    """All but the one that a configuration is for."""
    return [config.redis_of(name) for name in config.servers if name != config.server]


def make_service(config: Config, age_seconds: float) -> Loop:
    """The thread of a worker that reaps."""
    reaper = Reaper(config.shared_redis(), age_seconds=age_seconds, others=partial(other_servers, config))
    return Loop("offsider-unique-reaper", reaper.tick, on_error=config.handle_error)
