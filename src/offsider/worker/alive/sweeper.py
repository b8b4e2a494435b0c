"""Finds dead owners and requeues their jobs. Every live process can do it, one at a time.

1. Acquire the lease, or leave the work to the process that has it, until its lease can end. A process that is the only
   owner needs no lease.
2. Check every other owner once. An owner that was silent in three checks, over a third of a liveness period and
   without a gap, may be declared dead (by the server's clock).
3. Fence it and requeue its jobs; see `reclaim`. An owner that is already fenced needs no checks.
4. Remove it from the registry once its lists were empty in two checks a minute apart.
5. Once an hour scan for private lists that are missing from the registry.
6. Emit ``job_reclaimed`` for jobs that parents have requeued, if the application listens: a parent emits no events.

A poison pill, a job that kills its process each time it runs, moves to the dead set, even if its option ``dead`` is
False: without the job, an operator could not find out why processes died. The same script runs the effects of
extensions. `reclaim` finds the pills in a module of its own, because a parent process, which must leave them in their
lists, loads that module only.

After a Redis failure no owner is declared dead for two liveness periods: other processes could not beat either.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from offsider.config.installation import Installation
from offsider.core.compression import readable
from offsider.core.error_text import message_of
from offsider.core.errors import PoisonPill, RedisRefused
from offsider.core.malformed import listable
from offsider.core.normalize import normalize
from offsider.core.payload import decode_or_none, encode, interrupted, new_jid, stamp
from offsider.core.wording import counted
from offsider.inspector import removal
from offsider.logs.structured import about_raw
from offsider.runtime.events import JobPoisoned, JobReclaimed, JobRemoved
from offsider.runtime.outage import Outage
from offsider.runtime.service import Loop
from offsider.storage import events, leases, owners, rescued, strikes
from offsider.storage.effects import Together
from offsider.worker.alive.reclaim import reclaim

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.core.payload import JobPayload
    from offsider.storage.owners import Lists
    from offsider.storage.redis import Redis
    from offsider.storage.working import PrivateListEntry
    from offsider.worker.alive.ownership import Ownership


logger = logging.getLogger("offsider")

SWEEPS_PER_LIFE = 12
LEASE_SWEEPS = 3
#: The only owner counts the owners after this many sweeps: a new one cannot be dead before the end of its first life.
SWEEPS_BETWEEN_COUNTS = 8
SCAN_SECONDS = 3600.0


class Sweeper(Loop):
    """The service that finds and requeues jobs of dead owners."""

    def __init__(self, config: Config, redis: Redis, ownership: Ownership) -> None:
        self._config = config
        self._redis = redis
        self._ownership = ownership
        self._life_seconds = config.worker.liveness_seconds
        self._pause_seconds = self._life_seconds / SWEEPS_PER_LIFE
        self._poison_pills = PoisonPills(config, redis)
        self._troubles = 0
        self._hold_until = 0.0
        self._scan_at = time.monotonic() + SCAN_SECONDS
        self._outage = Outage("sweeper", config)
        super().__init__("offsider-sweeper", self.tick, config.handle_error)

    def tick(self) -> float:
        """Sweep once."""
        pause_seconds = self._pause_seconds
        with self._outage:
            if self._is_alone():
                pause_seconds *= SWEEPS_BETWEEN_COUNTS
            else:
                pause_seconds = max(pause_seconds, self._sweep())
        self._mind_trouble()
        return pause_seconds

    def _is_alone(self) -> bool:
        """Return whether nothing is to be done, because no other owner is registered."""
        return not self._announces and time.monotonic() < self._scan_at and owners.count(self._redis) < 2

    @property
    def _announces(self) -> bool:
        return self._config.events.listened("job_reclaimed")

    def _sweep(self) -> float:
        """Sweep under the lease. Return the seconds until another process's lease can end, or 0."""
        if self._announces:
            for job in rescued.take(self._redis):
                self._config.events.emit("job_reclaimed", JobReclaimed(*job))
        keys, lease_seconds = self._redis.keys, self._pause_seconds * LEASE_SWEEPS
        left_seconds = leases.acquire(self._redis, keys.sweep, self._ownership.identity, lease_seconds)
        if left_seconds:
            return 0.0 if self._announces else left_seconds
        if time.monotonic() >= self._scan_at:
            self._scan()
        others = [lists for lists in owners.registered(self._redis) if lists.identity != self._ownership.identity]
        dead = set(owners.look(self._redis, [lists.identity for lists in others], int(self._life_seconds * 1000)))
        self._mind_trouble()
        if time.monotonic() < self._hold_until:
            return 0.0
        for lists in others:
            if lists.identity in dead:
                self._reclaim(lists)
        return 0.0

    def _reclaim(self, lists: Lists) -> None:
        try:
            reclaimed = reclaim(
                self._redis,
                lists,
                max_strikes=self._config.worker.max_strikes,
                announce=partial(self._config.events.emit, "job_reclaimed"),
                bury=self._poison_pills.bury,
            )
            if reclaimed is not None:
                owners.forget(self._redis, lists, leaving=False)
        except RedisRefused as error:
            # One owner whose keys have the wrong type must not block the jobs of the others.
            self._outage.noticed(error)

    def _scan(self) -> None:
        self._scan_at = time.monotonic() + SCAN_SECONDS
        try:
            found = owners.adopt_strays(self._redis)
        except RedisRefused as error:  # some servers have no SCAN
            logger.info("not looking for private lists without an owner: %s", error)
            return
        if found:
            logger.warning("found and registered %s without an owner", counted(found, "private list"))

    def _mind_trouble(self) -> None:
        troubles = self._redis.troubles
        if troubles != self._troubles:
            self._troubles = troubles
            self._hold_until = time.monotonic() + 2 * self._life_seconds


ERROR_CLASS = "offsider.PoisonPill"


class PoisonPills:
    """Buries poison pills for the sweeper of one worker; the worker has the application's callbacks."""

    def __init__(self, config: Config, redis: Redis) -> None:
        self._config = config
        self._redis = redis
        self._limits = config.worker.dead_set_limits

    def bury(self, entry: PrivateListEntry, identities: Sequence[str]) -> bool:
        """Bury the job of ``entry``, which killed ``identities``; False if another process was faster.

        Raises:
            RedisFailure: the job was not moved.
        """
        error = PoisonPill(identities)
        payload = self._noted(entry.raw, error)
        now = stamp(self._config.clock.now(), self._config.redis.wire_version)
        stored = listable(entry.raw, now) if payload is None else encode(payload)
        server = Installation.of(self._config)
        removed = JobRemoved(entry.raw, f"queue:{entry.queue}", "kill", server.name, error)
        redis = Together(self._redis, removal.effects_of(server, removed))
        if not strikes.bury(redis, entry, stored, self._limits):
            return False
        jid = str(payload.get("jid", "")) if payload is not None else ""
        about = {} if payload is None else {"class": str(payload["class"])}
        events.note(self._redis, events.POISON_PILL, jid, queue=entry.queue, processes=len(identities), **about)
        logger.error(
            "job %s of queue %s is a poison pill and was moved to the dead set: %s",
            jid,
            entry.queue,
            error,
            extra={"fields": about_raw(stored, entry.queue)},
        )
        self._config.events.emit("job_poisoned", JobPoisoned(stored, entry.queue, tuple(identities)))
        if payload is not None:
            self._config.call_death_handlers(readable(payload), error)
        return True

    def _noted(self, raw: bytes, error: PoisonPill) -> JobPayload | None:
        payload = decode_or_none(interrupted(raw))
        if payload is None:
            return None
        now = stamp(self._config.clock.now(), self._config.redis.wire_version)
        if not normalize(payload).get("jid"):
            payload["jid"] = new_jid()
        payload["error_class"] = ERROR_CLASS
        payload["error_message"] = message_of(error)
        payload.pop("error_backtrace", None)  # of an earlier, unrelated failure
        payload.pop("error_frame", None)
        payload.setdefault("failed_at", now)
        return payload
