"""The kill switches in this process: classes whose jobs are dropped or deferred instead of run.

1. The worker reads the switches before its first claim, and again within a second of each change.
2. Each job is checked against the switches before its class, the reloader and all middleware. Without any switch, the
   check is one lookup in an empty mapping.
3. The worker counts dropped and deferred jobs and writes the counts once a second. The first worker that reads an
   expired switch deletes it.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure
from offsider.core.outcome import Destination, NotStarted
from offsider.jobs import registry
from offsider.storage import quarantine, switches
from offsider.storage.switches import Switch

if TYPE_CHECKING:
    from offsider.runtime.context import JobContext
    from offsider.runtime.middleware import Middleware
    from offsider.storage.redis import Redis

logger = logging.getLogger("offsider")


class Switchboard:
    """Decides whether a job runs. All capsules of a worker share one.

    Attributes:
        on: the switches in force, by class. The mapping is replaced, never modified.
    """

    on: Mapping[str, Switch] = MappingProxyType({})

    def __init__(self) -> None:
        self._acted: Counter[str] = Counter()
        self._lock = threading.Lock()

    def concerns(self, _job: JobContext) -> bool:
        """Return whether any switch is on."""
        return bool(self.on)

    def __call__(self, job: JobContext) -> Middleware:
        """Admission: let a job run, unless a switch stops it."""
        outcome = self.judge(job)
        if outcome is not None:
            return outcome
        yield

    def judge(self, job: JobContext) -> NotStarted | None:
        """Return the outcome of a job that must not run; None for other jobs. Call it only while a switch is ``on``."""
        switch = self._switch_of(job.payload["class"])
        if switch is None:
            return None
        with self._lock:
            self._acted[switch.name] += 1
        why = f": {switch.reason}" if switch.reason else ""
        if switch.action == "defer":
            return NotStarted("schedule", switch.delay_seconds, f"deferred by a kill switch{why}", "deferred")
        place: Destination = "quarantine" if switch.keep else "gone"
        return NotStarted(place, reason=f"dropped by a kill switch{why}", name="dropped")

    def take_counts(self) -> Counter[str]:
        """Return and reset the number of dropped and deferred jobs, by the class of the switch."""
        with self._lock:
            acted, self._acted = self._acted, Counter()
        return acted

    def give_back_counts(self, acted: Counter[str]) -> None:
        """Add counts back after a failed write."""
        with self._lock:
            self._acted.update(acted)

    def _switch_of(self, name: str) -> Switch | None:
        on = self.on
        found = on.get(name)
        if found is None:
            known = registry.peek(name)  # stored under an older name
            found = None if known is None else on.get(known.name)
        return found


class Switches:
    """The control table that keeps a switchboard up to date.

    Args:
        redis: the server that stores the switches.
        board: receives the switches.
    """

    def __init__(self, redis: Redis, board: Switchboard) -> None:
        self._redis = redis
        self._board = board
        self._is_full = False

    def update(self, *, changed: bool) -> None:
        """Read the switches if they changed or one of them can expire, and write the counts."""
        if changed or any(switch.until is not None for switch in self._board.on.values()):
            read = switches.read(self._redis)
            self._show(read.on)
            for name, stored in read.over.items():
                switches.forget(self._redis, name, stored)
        self._write_counts()

    def finish(self) -> None:
        self._write_counts()

    def _show(self, on: Mapping[str, Switch]) -> None:
        before = self._board.on
        if on == before:
            return
        self._board.on = MappingProxyType(dict(on))
        for name, switch in on.items():
            if switch != before.get(name):
                logger.warning("jobs of %s are %s from now on%s", name, _done(switch), _told(switch))
        for name in before.keys() - on.keys():
            logger.warning("jobs of %s run again: their kill switch was cleared", name)

    def _write_counts(self) -> None:
        """Write the counts. If that fails, the next write includes them."""
        acted = self._board.take_counts()
        if not acted:
            return
        try:
            switches.count(self._redis, acted)
        except RedisFailure as error:
            logger.debug("cannot write the counts of kill switches, trying again later: %s", error)
            self._board.give_back_counts(acted)
            return
        with suppress(RedisFailure):
            self._look_at_quarantine()

    def _look_at_quarantine(self) -> None:
        quarantine.trim(self._redis)
        was_full, self._is_full = self._is_full, quarantine.size(self._redis) >= quarantine.MAX_JOBS
        if self._is_full and not was_full:
            logger.warning(
                "the quarantine has %d jobs: kill switches delete the jobs that they drop from now on",
                quarantine.MAX_JOBS,
            )


def _done(switch: Switch) -> str:
    if switch.action == "defer":
        return f"deferred by {switch.delay_seconds:g} s"
    return "moved to the quarantine" if switch.keep else "deleted"


def _told(switch: Switch) -> str:
    who = f", by a kill switch that {switch.by} set" if switch.by else ", by a kill switch"
    return f"{who}: {switch.reason}" if switch.reason else who
