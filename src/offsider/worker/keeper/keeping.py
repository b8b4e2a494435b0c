"""Beats for workers whose interpreter may be held by a job, and gives the jobs of those that died back at once.

1. Read what the workers tell. A first report makes the worker known, and its process watched.
2. A worker that has ended and has not left is dead beyond doubt: fence it, put its jobs back, within a second and
   without the looks that silence would need. Once more a second later, for what the server handed it last.
3. Beat for every other worker, nine times in its life.
4. End with the process that started the keeper, or when it says that no more workers come, and nothing is left to do.

Redis may be away at any time: what failed is tried again. A death whose jobs cannot be given back for two liveness
lives is left to the sweepers of others. Poison jobs are never buried here, and no event is raised: no code of the
application runs in this process.
"""

from __future__ import annotations

import logging
import selectors
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure
from offsider.storage import owners
from offsider.storage.redis import Redis, RedisSettings
from offsider.worker.health_state import HealthState, WorkerHealth
from offsider.worker.keeper.endings import LOOK_SECONDS, Ending
from offsider.worker.keeper.messages import LEFT, Counted, Orders, Report, decode
from offsider.worker.liveness import BEATS_PER_LIFE
from offsider.worker.outage import Outage
from offsider.worker.reclaim import reclaim
from offsider.worker.run_sums import RunSums

if TYPE_CHECKING:
    from offsider.wiring.config import Config
    from offsider.worker.keeper.channel import Channel

logger = logging.getLogger("offsider")

AGAIN_SECONDS = 0.5
SECOND_LOOK_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0


@dataclass
class _Kept:
    """A worker that is beaten for."""

    report: Report
    ending: Ending
    beat_at: float = 0.0


@dataclass
class _Dead:
    """A worker whose jobs are to be given back."""

    report: Report
    give_up_at: float
    due: float = 0.0
    looks: int = field(default=0)


class Keeper:
    """The keeper's loop: one thread, and a connection of its own.

    Args:
        config: whose error handlers hear of outages; the application has not touched it.
        channel: from the workers.
        starter_pid: of the process that started the keeper: the worker itself, or the supervisor.
        health: kept up to date for the health endpoint.
    """

    def __init__(self, config: Config, channel: Channel, starter_pid: int, health: HealthState | None = None) -> None:
        self._channel = channel
        self._starter = Ending(starter_pid)
        self.health = health or HealthState()
        self.sums = RunSums()
        self._kept: dict[int, _Kept] = {}
        self._dead: list[_Dead] = []
        self._no_more = False
        #: Called when no more workers are to come: another keeper takes over what there can be only one of.
        self.on_no_more: Callable[[], None] = lambda: None
        self._pools: list[Redis] = []
        self._outage = Outage("keeper", config)
        self._selector = selectors.DefaultSelector()
        self._selector.register(channel.fileno(), selectors.EVENT_READ)
        if self._starter.fd is not None:
            self._selector.register(self._starter.fd, selectors.EVENT_READ)

    def run(self) -> None:
        """Returns when nothing is left to do."""
        while self.turn():
            self._selector.select(self._pause_seconds())

    def turn(self) -> bool:
        """Do all that is due now; False when nothing is left to do, now and later."""
        starter_ended = self._starter.seen()
        if starter_ended:
            self._forget_fd(self._starter)
        ended = [kept for kept in self._kept.values() if kept.ending.seen()]
        # In this order: what a worker said last, such as that it has left, arrived before its end.
        self._listen()
        for kept in ended:
            self._bury(kept)
        self._give_back()
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
                self.sums.add(message.pid, message.series, message.busy, message.concurrency)

    def _obey(self, orders: Orders) -> None:
        self.health.expected = orders.expected
        if orders.no_more and not self._no_more:
            self.on_no_more()
            for dead in self._dead:  # whoever waits for the keeper's end has no time for a second look later
                dead.due = 0.0
        self._no_more = orders.no_more

    def _heard(self, report: Report) -> None:
        kept = self._kept.get(report.pid)
        if kept is None:
            kept = _Kept(report, Ending(report.pid))
            self._kept[report.pid] = kept
            if kept.ending.fd is not None:
                self._selector.register(kept.ending.fd, selectors.EVENT_READ)
        elif kept.report.lists.identity != report.lists.identity:
            kept.beat_at = 0.0
        kept.report = report
        before = self.health.workers.get(report.pid) or WorkerHealth(report.pid)
        told = replace(
            before,
            identity=report.lists.identity,
            state=report.state,
            life_seconds=report.life_ms / 1000,
            told_at=time.monotonic(),
            stuck=report.stuck,
        )
        self.health.workers = {**self.health.workers, report.pid: told}

    # ---------------------------------------------------------------------------------- deaths
    def _bury(self, kept: _Kept) -> None:
        pid = kept.report.pid
        del self._kept[pid]
        self.sums.forget(pid)
        self._forget_fd(kept.ending)
        self.health.workers = {other: worker for other, worker in self.health.workers.items() if other != pid}
        if kept.report.state != LEFT:
            patience_seconds = 2 * kept.report.life_ms / 1000
            self._dead.append(_Dead(kept.report, time.monotonic() + patience_seconds))

    def _give_back(self) -> None:
        now = time.monotonic()
        for dead in [dead for dead in self._dead if dead.due <= now]:
            identity = dead.report.lists.identity
            try:
                redis = self._redis(dead.report.redis)
                lists = owners.lists_of(redis, identity) or dead.report.lists
                reclaim(redis, lists, proven=True, max_strikes=dead.report.max_strikes)
                owners.forget(redis, lists, leaving=False)
            except RedisFailure as error:
                self._outage.noticed(error)
                dead.due = now + AGAIN_SECONDS
                if now >= dead.give_up_at:
                    logger.warning("%s is dead; Redis is away: its jobs are left to other workers", identity)
                    self._dead.remove(dead)
                continue
            self._outage.over()
            dead.looks += 1
            dead.due = now if self._no_more else now + SECOND_LOOK_SECONDS
            if dead.looks == 2:
                self._dead.remove(dead)

    def _forget_fd(self, ending: Ending) -> None:
        if ending.fd is not None:
            self._selector.unregister(ending.fd)
            ending.close()

    # ----------------------------------------------------------------------------------- beats
    def _beat(self) -> None:
        for kept in self._kept.values():
            now = time.monotonic()
            report = kept.report
            if report.state == LEFT or now < kept.beat_at:
                continue
            pause_seconds = report.life_ms / 1000 / BEATS_PER_LIFE
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
        watched = [self._starter, *(kept.ending for kept in self._kept.values())]
        if any(ending.must_look for ending in watched):
            due.append(now + LOOK_SECONDS)
        return max(0.0, min(due) - now)
