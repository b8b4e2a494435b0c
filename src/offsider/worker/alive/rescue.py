"""What a parent does for its workers at the server: beats while a job blocks an interpreter, requeues jobs of the dead.

1. The first report of a worker registers it.
2. If a worker has reported no beat of its own for two of its intervals, the parent beats for it, nine times per
   liveness period (`worker.liveness_seconds`).
3. The end of a process proves that its worker is dead, unless it has left the registries. Fence it and requeue its jobs
   at once, without the repeated checks that a silent worker needs. Repeat this a second later, for jobs that the server
   delivered last.

One call of `Rescuer.tend` does one of these, and each command has a time limit of a second, so that the parent handles
signals in between. While Redis is unavailable they are retried; after two liveness periods this is left to the sweepers
of other workers. The parent runs no code of the application. So it never moves poison pills to the dead set and emits
no events. It records requeued jobs in Redis, and a live worker emits ``job_reclaimed`` for them.
"""

from __future__ import annotations

import logging
import time
from dataclasses import astuple, dataclass, field, replace
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure
from offsider.runtime.events import JobReclaimed
from offsider.storage import owners, rescued
from offsider.storage.redis import Redis, RedisSettings, load_client
from offsider.storage.rescued import Rescued
from offsider.worker.alive.liveness import BEATS_PER_LIFE
from offsider.worker.alive.parent_link import LEFT, CountedRuns, Report
from offsider.worker.alive.reclaim import reclaim
from offsider.worker.health_state import HealthState, WorkerHealth
from offsider.worker.outage import Outage
from offsider.worker.totals import Totals

if TYPE_CHECKING:
    from offsider.config.config import Config

logger = logging.getLogger("offsider")

STEP_SECONDS = 1.0
AGAIN_SECONDS = 0.5
#: Pause of the beats after a failed one: a server that does not answer takes a whole step.
BEAT_AGAIN_SECONDS = 4.0
SECOND_LOOK_SECONDS = 1.0


def preload() -> None:
    """Import what a parent and its workers use later, so that a fork shares its memory."""
    load_client()


@dataclass
class _Living:
    report: Report
    beat_at: float = 0.0


@dataclass
class _Dead:
    """A dead worker whose jobs must be requeued."""

    report: Report
    give_up_at: float
    due: float = 0.0
    looks: int = 0
    requeued: list[JobReclaimed] = field(default_factory=list["JobReclaimed"])


class Rescuer:
    """Beats and requeues, one step at a time.

    Args:
        config: its error handlers receive outages; the application has not modified it.

    Attributes:
        health, totals: for the health endpoint.
        step_seconds: time limit of each command from now on.
    """

    def __init__(self, config: Config) -> None:
        self.health = HealthState()
        self.totals = Totals()
        self.step_seconds = STEP_SECONDS
        self._living: dict[int, _Living] = {}
        self._dead: list[_Dead] = []
        self._pools: list[Redis] = []
        self._outage = Outage("parent", config)

    @property
    def busy(self) -> bool:
        """Whether jobs of dead workers must still be requeued."""
        return bool(self._dead)

    def heard(self, pid: int, message: Report | CountedRuns) -> None:
        """Note a message of the worker in the process ``pid``."""
        if isinstance(message, CountedRuns):
            self.totals.add(pid, message.series, message.busy, message.concurrency)
            return
        living = self._living.setdefault(pid, _Living(message))
        if living.report.lists.identity != message.lists.identity:
            living.beat_at = 0.0
        living.report = message
        now = time.monotonic()
        if message.beaten:
            living.beat_at = now + 2 * _interval_seconds(message)
        before = self.health.workers.get(pid) or WorkerHealth(pid)
        self.health.workers[pid] = replace(
            before,
            identity=message.lists.identity,
            state=message.state,
            life_seconds=message.life_ms / 1000,
            told_at=now,
            beaten_at=now if message.beaten else before.beaten_at,
            stuck=message.stuck,
        )

    def died(self, pid: int) -> None:
        """Requeue the jobs of a worker whose process has ended."""
        self.totals.forget(pid)
        self.health.workers.pop(pid, None)
        living = self._living.pop(pid, None)
        if living is not None and living.report.state != LEFT:
            patience_seconds = 2 * living.report.life_ms / 1000
            self._dead.append(_Dead(living.report, time.monotonic() + patience_seconds))

    def hurry(self) -> None:
        """Do the second look now: this process waits only for the rescuer."""
        for dead in self._dead:
            dead.due = min(dead.due, time.monotonic())

    def due(self) -> float:
        """Return the time of the next step, by the monotonic clock; infinite if there is none."""
        beats = [living.beat_at for living in self._living.values() if living.report.state != LEFT]
        return min([dead.due for dead in self._dead] + beats, default=float("inf"))

    def tend(self, now: float) -> None:
        """Do one step if one is due; jobs of dead workers first."""
        dead = next((dead for dead in self._dead if dead.due <= now), None)
        if dead is not None:
            self._requeue(dead, now)
            return
        for pid, living in self._living.items():
            if living.report.state != LEFT and living.beat_at <= now:
                self._beat(pid, living, now)
                return

    def _requeue(self, dead: _Dead, now: float) -> None:
        identity = dead.report.lists.identity
        try:
            redis = self._redis(dead.report.redis)
            lists = owners.lists_of(redis, identity) or dead.report.lists
            reclaim(redis, lists, proven=True, max_strikes=dead.report.max_strikes, announce=dead.requeued.append)
            rescued.note(redis, [Rescued(*astuple(news)) for news in dead.requeued])
            dead.requeued.clear()
            owners.forget(redis, lists, leaving=False)
        except RedisFailure as error:
            self._outage.noticed(error)
            dead.due = time.monotonic() + AGAIN_SECONDS
            if now >= dead.give_up_at:
                logger.warning("%s is dead and Redis is unavailable: other workers will requeue its jobs", identity)
                self._dead.remove(dead)
            return
        self._outage.over()
        dead.looks += 1
        dead.due = now + SECOND_LOOK_SECONDS
        if dead.looks == 2:
            self._dead.remove(dead)

    def _beat(self, pid: int, living: _Living, now: float) -> None:
        report = living.report
        pause_seconds = _interval_seconds(report)
        try:
            taken = owners.prolong(self._redis(report.redis), report.lists.identity, report.life_ms)
        except RedisFailure as error:
            self._outage.noticed(error)
            living.beat_at = time.monotonic() + min(BEAT_AGAIN_SECONDS, pause_seconds)
            return
        self._outage.over()
        living.beat_at = now + pause_seconds
        if taken:
            self.health.workers[pid].beaten_at = now

    def _redis(self, settings: RedisSettings) -> Redis:
        bounded = replace(settings, socket_timeout_seconds=min(self.step_seconds, settings.socket_timeout_seconds))
        for pool in self._pools:
            if pool.settings == bounded:
                return pool
        pool = Redis(bounded, size=1)
        self._pools.append(pool)
        return pool


def _interval_seconds(report: Report) -> float:
    """The time between two beats."""
    return report.life_ms / 1000 / BEATS_PER_LIFE
