"""Free locks whose job no longer exists: another program ran or deleted the job, a queue was dropped, or the request
that frees the lock of a deleted job failed.

One process at a time does this, under a lease, in small steps:

1. Collect locks that are old enough, with the last time their job took the lock or started.
2. Walk through every list and set where a job can be (see `places`), and drop the locks of jobs found there. Usually
   all jobs are found soon, and the walk ends.
3. Walk once more for the jobs that were not found.
4. Free the remaining locks, each only if its job has not moved since.

A job may be moving here from another server. So while another server is unreachable, no lock is freed.

Age alone never frees a lock: jobs may wait for days.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from offsider.config.installation import Installation
from offsider.core.errors import RedisFailure
from offsider.core.payload import new_jid
from offsider.core.wording import counted
from offsider.ext.unique import places, store
from offsider.runtime.service import Loop
from offsider.storage import clocks
from offsider.storage.leases import hold_lease

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.storage.redis import Redis

logger = logging.getLogger("offsider")

LEASE = "unique"
LEASE_SECONDS = 15.0
PAUSE_SECONDS = 0.1
#: Steps of a walk per tick; pages of locks per tick; and locks per pass.
STEPS_PER_TICK = 10
PAGES_PER_TICK = 20
MOST_LOCKS = 20_000
WALKS = 2


class Reaper:
    """Search for locks without a job, a few steps per tick.

    Args:
        redis: the server of the locks.
        age_seconds: ignore younger locks, and locks whose job started more recently.
        others: the other servers, from which a migration may be moving jobs.
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
        """Do a few steps; return the seconds until the next tick."""
        if not hold_lease(self._redis, LEASE, self._holder, LEASE_SECONDS):
            self._abandon()
            return LEASE_SECONDS
        if not self._others_answer():
            self._abandon()
            return LEASE_SECONDS
        try:
            if self._is_under_way():
                return PAUSE_SECONDS
        except BaseException:
            self._abandon()  # an interrupted walk has not seen every job
            raise
        # Keep the lease until the next pass; otherwise each process would do its own pass.
        hold_lease(self._redis, LEASE, self._holder, self._pause_seconds + LEASE_SECONDS)
        return self._pause_seconds

    def _others_answer(self) -> bool:
        try:
            for server in self._others():
                clocks.look(server)
        except RedisFailure as error:
            if not self._is_alone:
                logger.warning(
                    "cannot release locks until all servers are reachable, because jobs may be in transit: %s", error
                )
            self._is_alone = True
            return False
        self._is_alone = False
        return True

    def _is_under_way(self) -> bool:
        """Continue the pass; return False at its end."""
        if self._walk is None and not self._choose():
            return True
        if self._walk is not None:
            self._advance()
        return self._walk is not None

    def _abandon(self) -> None:
        self._walk, self._choosing, self._pages = None, False, store.pages(self._redis)

    def run(self) -> int:
        """Check all locks without pausing; return the number of freed locks."""
        freed = 0
        while True:
            while not self._choose():
                pass
            while self._walk is not None:
                freed += self._advance()
            if self._all_seen:
                return freed

    @property
    def _pause_seconds(self) -> float:
        return max(PAUSE_SECONDS, self._age_seconds)

    def _choose(self) -> bool:
        """Collect more locks for this pass. Return True at the end, when the walk begins if any lock is old enough."""
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

    def _advance(self) -> int:
        """Do some steps of the walk; return the number of locks freed at its end."""
        assert self._walk is not None  # noqa: S101  # both callers check it
        steps = 0
        for found in islice(self._walk, STEPS_PER_TICK):
            steps += 1
            for jid in found & self._missing.keys():
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
                fields = {"class": lock.name, "jid": jid}
                logger.info(
                    "released the lock of job %s (%s), which no longer exists", jid, lock.name, extra={"fields": fields}
                )
        self._missing = {}
        if freed:
            logger.warning("released %s of jobs that no longer exist", counted(freed, "lock"))
        return freed


def other_servers(here: Installation) -> Sequence[Redis]:
    """Return the pools of all servers except the server of ``config``."""
    return [here.for_server(name).redis for name in here.config.servers if name != here.server]


def make_service(config: Config, age_seconds: float) -> Loop:
    """Create the reaper thread of a worker."""
    here = Installation.of(config)
    reaper = Reaper(here.redis, age_seconds=age_seconds, others=partial(other_servers, here))
    return Loop("offsider-unique-reaper", reaper.tick, on_error=config.handle_error)
