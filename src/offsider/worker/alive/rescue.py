"""What a parent does for its workers at the server: beats while a job blocks an interpreter, requeues jobs of the dead.

1. The first report of a worker registers it.
2. If a worker has reported no beat of its own for two of its intervals, the parent beats for it, five times per
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
from offsider.runtime.outage import Outage
from offsider.storage import owners, rescued
from offsider.storage.redis import Redis, RedisSettings, load_client
from offsider.storage.rescued import Rescued
from offsider.worker.alive.ownership import BEATS_PER_LIFE
from offsider.worker.alive.reclaim import reclaim
from offsider.worker.health_state import LEFT, CountedRuns, HealthState, Report, WorkerHealth

if TYPE_CHECKING:
    from offsider.config.config import Config

logger = logging.getLogger("offsider")

STEP_SECONDS = 1.0
RETRY_SECONDS = 0.5
#: Pause of the beats after a failed one: a server that does not answer takes a whole step.
BEAT_PAUSE_SECONDS = 4.0
SECOND_CHECK_SECONDS = 1.0


def preload() -> None:
    """Import what a parent and its workers use later, so that a fork shares its memory."""
    load_client()


@dataclass
class _Dead:
    """A dead worker whose jobs must be requeued, and how it ended."""

    report: Report
    how: str
    give_up_at: float
    due: float = 0.0
    looks: int = 0
    requeued: list[JobReclaimed] = field(default_factory=list["JobReclaimed"])


class Rescuer:
    """Beats and requeues, one step at a time.

    Args:
        config: its error handlers receive outages; the application has not modified it.

    Attributes:
        health: the workers, also for the health endpoint.
        step_seconds: time limit of each command from now on.
    """

    def __init__(self, config: Config) -> None:
        self.health = HealthState()
        self.step_seconds = STEP_SECONDS
        self._dead: list[_Dead] = []
        self._pools: list[Redis] = []
        self._outage = Outage("parent", config)

    def heard(self, pid: int, message: Report | CountedRuns) -> None:
        """Note a message of the worker in the process ``pid``."""
        if isinstance(message, CountedRuns):
            self.health.count(pid, message)
            return
        now = time.monotonic()
        worker = self.health.workers.setdefault(pid, WorkerHealth(message))
        if worker.report.lists.identity != message.lists.identity:
            worker.beat_at = 0.0
        worker.report, worker.told_at = message, now
        if message.beaten:
            worker.beaten_at, worker.beat_at = now, now + 2 * _interval_seconds(message)

    def died(self, pid: int, how: str) -> None:
        """Requeue the jobs of a worker whose process has ended.

        Args:
            how: for the event log, such as ``"was killed by SIGKILL"``.
        """
        worker = self.health.workers.pop(pid, None)
        if worker is not None and worker.report.state != LEFT:
            patience_seconds = 2 * worker.report.life_ms / 1000
            self._dead.append(_Dead(worker.report, how, time.monotonic() + patience_seconds))

    def finish(self, give_up_at: float) -> None:
        """Requeue what is left, and do the second look now; return at ``give_up_at`` at the latest."""
        while self._dead and time.monotonic() < give_up_at:
            for dead in self._dead:
                dead.due = min(dead.due, time.monotonic())
            self.tend(time.monotonic())
            if self._dead:
                time.sleep(0.02)

    def due(self) -> float:
        """Return the time of the next step, by the monotonic clock; infinite if there is none."""
        beats = [worker.beat_at for worker in self._living()]
        return min([dead.due for dead in self._dead] + beats, default=float("inf"))

    def _living(self) -> list[WorkerHealth]:
        return [worker for worker in self.health.workers.values() if worker.report.state != LEFT]

    def tend(self, now: float) -> None:
        """Do one step if one is due; jobs of dead workers first."""
        dead = next((dead for dead in self._dead if dead.due <= now), None)
        if dead is not None:
            self._requeue(dead, now)
            return
        worker = next((worker for worker in self._living() if worker.beat_at <= now), None)
        if worker is not None:
            self._beat(worker, now)

    def _requeue(self, dead: _Dead, now: float) -> None:
        identity = dead.report.lists.identity
        try:
            redis = self._redis(dead.report.redis)
            lists = owners.lists_of(redis, identity) or dead.report.lists
            reclaim(redis, lists, how=dead.how, max_strikes=dead.report.max_strikes, announce=dead.requeued.append)
            rescued.note(redis, [Rescued(*astuple(news)) for news in dead.requeued])
            dead.requeued.clear()
            owners.forget(redis, lists, leaving=False)
        except RedisFailure as error:
            self._outage.noticed(error)
            dead.due = time.monotonic() + RETRY_SECONDS
            if now >= dead.give_up_at:
                logger.warning("%s is dead and Redis is unavailable: other workers will requeue its jobs", identity)
                self._dead.remove(dead)
            return
        self._outage.over()
        dead.looks += 1
        dead.due = now + SECOND_CHECK_SECONDS
        if dead.looks == 2:
            self._dead.remove(dead)

    def _beat(self, worker: WorkerHealth, now: float) -> None:
        report = worker.report
        pause_seconds = _interval_seconds(report)
        try:
            taken = owners.prolong(self._redis(report.redis), report.lists.identity, report.life_ms)
        except RedisFailure as error:
            self._outage.noticed(error)
            worker.beat_at = time.monotonic() + min(BEAT_PAUSE_SECONDS, pause_seconds)
            return
        self._outage.over()
        worker.beat_at = now + pause_seconds
        if taken:
            worker.beaten_at = now

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
