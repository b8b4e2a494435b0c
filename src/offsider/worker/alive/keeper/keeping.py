"""Sends liveness beats for workers whose interpreter a job may block, and requeues the jobs of dead workers at once.

1. Read the reports of the workers. The first report registers a worker, and the keeper watches its process.
2. A worker whose process has ended, or runs another program now (`os.execv`), is proven dead unless it has left the
   registries. Fence it and requeue its jobs within a second, without the repeated checks that a silent worker needs.
   Repeat this a second later, for jobs that the server delivered last.
3. Beat for a worker that has reported no beat of its own for two of its intervals; from then on, nine times per
   liveness period (`worker.liveness_seconds`).
4. Exit when nothing is left to do and the starting program has ended, or has announced that no more workers start.

Failed commands are retried while Redis is unavailable. If the jobs of a dead worker cannot be requeued for two
liveness periods, the sweepers of other workers do it. The keeper runs no code of the application. So it never moves
poison pills to the dead set and emits no events. It records requeued jobs in Redis, and a live worker emits
``job_reclaimed`` for them.
"""

from __future__ import annotations

import logging
import selectors
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass, field, replace
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure
from offsider.runtime.events import JobReclaimed
from offsider.storage import owners, rescued
from offsider.storage.redis import Redis, RedisSettings, load_client
from offsider.storage.rescued import Rescued
from offsider.worker.alive.keeper.messages import LEFT, Counted, Orders, Report, decode
from offsider.worker.alive.keeper.process_watch import POLL_SECONDS, ProcessWatch
from offsider.worker.alive.liveness import BEATS_PER_LIFE
from offsider.worker.alive.reclaim import reclaim
from offsider.worker.health_state import HealthState, WorkerHealth
from offsider.worker.outage import Outage
from offsider.worker.totals import Totals

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.worker.alive.keeper.channel import Channel

logger = logging.getLogger("offsider")

AGAIN_SECONDS = 0.5
SECOND_LOOK_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0


def preload() -> None:
    """Import what a keeper and its workers use later, so that a fork shares its memory."""
    load_client()


@dataclass
class _Kept:
    """A live worker."""

    report: Report
    watch: ProcessWatch
    beat_at: float = 0.0


@dataclass
class _Dead:
    """A dead worker whose jobs must be requeued."""

    report: Report
    give_up_at: float
    due: float = 0.0
    looks: int = field(default=0)
    requeued: list[JobReclaimed] = field(default_factory=list["JobReclaimed"])


class Keeper:
    """The keeper's loop: one thread with its own connection.

    Args:
        config: its error handlers receive outages; the application has not modified it.
        channel: from the workers.
        starter_pid: process that started the keeper: the worker itself, or the supervisor.
        health: updated for the health endpoint.
        on_no_more: called when no more workers start: another keeper takes over resources that only one process can
            use.
    """

    def __init__(
        self,
        config: Config,
        channel: Channel,
        starter_pid: int,
        health: HealthState | None = None,
        on_no_more: Callable[[], None] = lambda: None,
    ) -> None:
        self._channel = channel
        self._starter = ProcessWatch(starter_pid)
        self.health = health or HealthState()
        self.totals = Totals()
        self._kept: dict[int, _Kept] = {}
        self._dead: list[_Dead] = []
        self._no_more = False
        self._on_no_more = on_no_more
        self._pools: list[Redis] = []
        self._outage = Outage("keeper", config)
        self._selector = selectors.DefaultSelector()
        self._selector.register(channel.fileno(), selectors.EVENT_READ)
        if self._starter.fd is not None:
            self._selector.register(self._starter.fd, selectors.EVENT_READ)

    def run(self) -> None:
        """Run until nothing is left to do."""
        while self.run_once():
            self._selector.select(self._pause_seconds())

    def run_once(self) -> bool:
        """Do everything that is due; False when nothing is left to do, now or later."""
        starter_ended = self._starter.ended()
        if starter_ended:
            self._forget_fd(self._starter)
        ended = [kept for kept in self._kept.values() if kept.watch.ended()]
        # Read reports after the check for ended workers: their last reports, such as LEFT, have then arrived.
        self._listen()
        for kept in ended:
            self._note_dead(kept)
        self._reclaim_dead()
        self._beat()
        return bool(self._kept or self._dead or not (starter_ended or self._no_more))

    # ------------------------------------------------------------------------------- listening
    def _listen(self) -> None:
        while (datagram := self._channel.receive()) is not None:
            message = decode(datagram)
            if isinstance(message, Report):
                self._heard(message)
            elif isinstance(message, Orders):
                self._obey(message)
            elif isinstance(message, Counted):
                self.totals.add(message.pid, message.series, message.busy, message.concurrency)

    def _obey(self, orders: Orders) -> None:
        self.health.expected = orders.expected
        if orders.no_more and not self._no_more:
            self._on_no_more()
            for dead in self._dead:  # a process waits for the keeper to exit, so the second pass runs at once
                dead.due = 0.0
        self._no_more = orders.no_more

    def _heard(self, report: Report) -> None:
        kept = self._kept.get(report.pid)
        if kept is None:
            kept = _Kept(report, ProcessWatch(report.pid))
            self._kept[report.pid] = kept
            if kept.watch.fd is not None:
                self._selector.register(kept.watch.fd, selectors.EVENT_READ)
        elif kept.report.lists.identity != report.lists.identity:
            kept.beat_at = 0.0
        kept.report = report
        now = time.monotonic()
        if report.beaten:
            kept.beat_at = now + 2 * _interval_seconds(report)
        before = self.health.workers.get(report.pid) or WorkerHealth(report.pid)
        told = replace(
            before,
            identity=report.lists.identity,
            state=report.state,
            life_seconds=report.life_ms / 1000,
            told_at=now,
            beaten_at=now if report.beaten else before.beaten_at,
            stuck=report.stuck,
        )
        self.health.workers = {**self.health.workers, report.pid: told}

    # ---------------------------------------------------------------------------------- deaths
    def _note_dead(self, kept: _Kept) -> None:
        pid = kept.report.pid
        del self._kept[pid]
        self.totals.forget(pid)
        if kept.report.state != LEFT and kept.watch.by_exec:
            logger.warning(
                "%s replaced its program (os.execv) while jobs were running: they are requeued; a job must not do that",
                kept.report.lists.identity,
            )
        self._forget_fd(kept.watch)
        self.health.workers = {other: worker for other, worker in self.health.workers.items() if other != pid}
        if kept.report.state != LEFT:
            patience_seconds = 2 * kept.report.life_ms / 1000
            self._dead.append(_Dead(kept.report, time.monotonic() + patience_seconds))

    def _reclaim_dead(self) -> None:
        now = time.monotonic()
        for dead in [dead for dead in self._dead if dead.due <= now]:
            identity = dead.report.lists.identity
            try:
                redis = self._redis(dead.report.redis)
                lists = owners.lists_of(redis, identity) or dead.report.lists
                reclaim(
                    redis,
                    lists,
                    proven=True,
                    max_strikes=dead.report.max_strikes,
                    announce=dead.requeued.append,
                )
                rescued.note(redis, [Rescued(*astuple(news)) for news in dead.requeued])
                dead.requeued.clear()
                owners.forget(redis, lists, leaving=False)
            except RedisFailure as error:
                self._outage.noticed(error)
                dead.due = now + AGAIN_SECONDS
                if now >= dead.give_up_at:
                    logger.warning("%s is dead and Redis is unavailable: other workers will requeue its jobs", identity)
                    self._dead.remove(dead)
                continue
            self._outage.over()
            dead.looks += 1
            dead.due = now if self._no_more else now + SECOND_LOOK_SECONDS
            if dead.looks == 2:
                self._dead.remove(dead)

    def _forget_fd(self, watch: ProcessWatch) -> None:
        if watch.fd is not None:
            self._selector.unregister(watch.fd)
        watch.close()

    # ----------------------------------------------------------------------------------- beats
    def _beat(self) -> None:
        for kept in self._kept.values():
            now = time.monotonic()
            report = kept.report
            if report.state == LEFT or now < kept.beat_at:
                continue
            pause_seconds = _interval_seconds(report)
            try:
                taken = owners.prolong(self._redis(report.redis), report.lists.identity, report.life_ms)
            except RedisFailure as error:
                self._outage.noticed(error)
                kept.beat_at = time.monotonic() + min(1.0, pause_seconds)
                continue
            self._outage.over()
            kept.beat_at = now + pause_seconds
            if taken:
                self.health.workers[report.pid].beaten_at = now

    def _redis(self, settings: RedisSettings) -> Redis:
        for pool in self._pools:
            if pool.settings == settings:
                return pool
        pool = Redis(settings, size=1)
        self._pools.append(pool)
        return pool

    def _pause_seconds(self) -> float:
        now = time.monotonic()
        due = [now + LONGEST_PAUSE_SECONDS, *(dead.due for dead in self._dead)]
        due += [kept.beat_at for kept in self._kept.values() if kept.report.state != LEFT]
        watched = [self._starter, *(kept.watch for kept in self._kept.values())]
        if any(watch.needs_polling for watch in watched):
            due.append(now + POLL_SECONDS)
        return max(0.0, min(due) - now)


def _interval_seconds(report: Report) -> float:
    """The time between two beats."""
    return report.life_ms / 1000 / BEATS_PER_LIFE
