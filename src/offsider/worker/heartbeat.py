"""Publishes this process in Sidekiq's registry, and flushes the counters.

1. Write the account of runs; counts that cannot be written are kept.
2. Prolong the list of jobs that this process can run; the time of this round trip is shown.
3. Write the process, its running jobs and the names of its queues: one script.
4. Emit events: ``heartbeat`` at the first beat and after a partition, ``beat`` at each beat.
5. Collect garbage, if no job has run since the last beat but some have run before: an idle thread creates no objects,
   so Python itself would keep the reference cycles of the last jobs, with their locks and connections, for hours.
6. Each second, if anything has changed, write the totals of the account, and report jobs per second and running jobs.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from offsider import __version__
from offsider.config.app_version import app_version
from offsider.config.queue_spec import EVERY
from offsider.core import gil
from offsider.core.errors import RedisFailure, RedisRefused
from offsider.jobs import registry
from offsider.runtime.service import LoopService
from offsider.storage import processes
from offsider.worker.activity import ActivityReport
from offsider.worker.outage import Outage
from offsider.worker.resident_memory import resident_kilobytes
from offsider.worker.run.interrupt import OBSTACLE
from offsider.worker.run_writer import RunWriter

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.core.series import Series
    from offsider.storage.redis import Redis
    from offsider.storage.scripts import Argument
    from offsider.worker.alive.ownership import Ownership
    from offsider.worker.work_state import WorkState

logger = logging.getLogger("offsider")

PAUSE_SECONDS = 10.0
PAUSE_SECONDS_OF_6 = 5.0
REPORT_SECONDS = 1.0
SLOW_MICROSECONDS = 50_000
ROUND_TRIPS = 5


class Heartbeat(LoopService):
    """The service that publishes this process.

    Args:
        quiet: returns whether the worker is quiet.
        embedded: the worker runs inside another program.
        coroutines: returns how many running jobs have no thread seat.
        count: receives the counts for a health endpoint that serves them to a monitoring system.
        beaten: called after each beat, when the registry contains the jobs that this process can run.

    Attributes:
        runs: writes the account of runs.
        info: describes this process.
    """

    def __init__(
        self,
        config: Config,
        redis: Redis,
        ownership: Ownership,
        work_state: WorkState,
        *,
        quiet: Callable[[], bool],
        embedded: bool,
        coroutines: Callable[[], int] = int,
        count: Callable[[Sequence[Series], int, int], None] | None = None,
        beaten: Callable[[], None] | None = None,
    ) -> None:
        self._config = config
        self._redis = redis
        self._ownership = ownership
        self._work_state = work_state
        self._quiet = quiet
        self._coroutines = coroutines
        self._beaten = beaten
        self._wire_version = config.redis.wire_version
        self._activity = ActivityReport(redis, work_state, config.clock.now, self._wire_version)
        self.runs = RunWriter(config, redis, work_state, quiet=quiet, concurrency=self._concurrency, count=count)
        self.info = ProcessInfo(config, embedded=embedded)
        self._round_trips: deque[int] = deque(maxlen=ROUND_TRIPS)
        self._shown_as = ""
        self._writing = threading.Lock()
        self._left = False
        self._outage = Outage("heartbeat", config)
        self._beat_due = self._prune_due = 0.0
        self._published: Mapping[str, str] | None = None
        self._beat_asked = False
        self._ended = self._collected = work_state.runs.ended
        super().__init__("offsider-heartbeat", self._beat_or_report, config.handle_error)

    def wake(self) -> None:
        """Beat now."""
        self._beat_asked = True
        self._loop.wake()

    def _beat_or_report(self) -> float:
        now = time.monotonic()
        if self._beat_asked or now >= self._beat_due:
            self._beat_asked = False
            self._beat_due = now + self.tick()
        self.report()
        return min(REPORT_SECONDS, max(0.0, self._beat_due - now))

    @property
    def identity(self) -> str:
        """The identity that web pages show, and to which they send signals."""
        return self._shown_as or self._ownership.identity

    def report(self) -> None:
        """Write changes since the last report. On failure they are kept, and the next beat reports the error."""
        if self._shown_as:
            with suppress(RedisFailure):
                self.runs.write_totals()
                self._activity.write(self._shown_as)

    def tick(self) -> float:
        """Beat once."""
        well = True
        pause_seconds = PAUSE_SECONDS_OF_6 if self._wire_version == 6 else PAUSE_SECONDS
        # A full server refuses counters but accepts the rest, so the process must not disappear from the pages.
        for step in (partial(self.runs.write, wait_seconds=pause_seconds), self._beat):
            try:
                step()
            except RedisFailure as error:
                well = False
                self._outage.noticed(error)
        if well:
            self._outage.over()
        self._collect_garbage()
        return pause_seconds

    def _collect_garbage(self) -> None:
        ended = self._work_state.runs.ended
        is_idle = ended is self._ended and not self._work_state.busy
        self._ended = ended
        if is_idle and ended is not self._collected:
            self._collected = ended
            gc.collect()

    def leave(self) -> None:
        """Remove the process from the registry permanently."""
        with self._writing:
            self._left = True
            processes.leave(self._redis, self._shown_as or self._ownership.identity)

    def _beat(self) -> None:
        with self._writing:
            # A late beat must not register a process again that has left.
            known = None if self._left else self._write()
        if known is None:
            return
        if not known:
            self._activity.forget()
            self._config.events.emit("heartbeat")
        self._config.events.emit("beat")
        if self._beaten is not None:
            self._beaten()
        now = self._config.clock.monotonic()
        if now >= self._prune_due:
            self._prune_due = now + processes.PRUNE_SECONDS
            processes.prune(self._redis)

    def _write(self) -> bool:
        identity = self._ownership.identity
        if self._shown_as not in ("", identity):
            processes.leave(self._redis, self._shown_as)
        self._shown_as = identity
        self._publish_jobs(identity)
        works = self._work_state.running()
        capsules = self._config.capsules.values()
        known = processes.heartbeat(
            self._redis,
            identity,
            self._fields(identity, len(works)),
            {tid: work.as_sidekiq_shows() for tid, work in works.items()},
            # Others may have been deleted: discovery finds those that contain jobs.
            queues=[spec.name for capsule in capsules for spec in capsule.specs if spec.name != EVERY],
            wire_version=self._wire_version,
        )
        self._activity.shown(works)
        return known

    def _publish_jobs(self, identity: str) -> None:
        started = time.perf_counter()
        kept = processes.keep_published(self._redis, identity)
        self._note_round_trip(int((time.perf_counter() - started) * 1_000_000))
        signatures = registry.signatures()
        if not kept or signatures != self._published:
            with suppress(RedisRefused):  # a full server: publish the process nevertheless
                processes.publish_jobs(self._redis, identity, signatures)
                self._published = signatures

    def _fields(self, identity: str, busy: int) -> dict[str, Argument]:
        fields: dict[str, Argument] = {
            "info": json.dumps(self.info.describe(identity), ensure_ascii=False, separators=(",", ":")),
            "concurrency": self._concurrency(),
            "busy": busy,
            "beat": repr(self._config.clock.now()),
            "rtt_us": self._round_trips[-1],
            "quiet": "true" if self._quiet() else "false",
            "rss": resident_kilobytes(),
        }
        return fields

    def _concurrency(self) -> int:
        """Return how many jobs can run now: one in each thread, and the coroutines that run beside them."""
        return threads(self._config) + self._coroutines()

    def _note_round_trip(self, microseconds: int) -> None:
        self._round_trips.append(microseconds)
        if len(self._round_trips) == ROUND_TRIPS and min(self._round_trips) > SLOW_MICROSECONDS:
            logger.warning(
                "a round trip to Redis takes %d us (the last five: %s); above %d us jobs are delayed: "
                "check the CPU load of the server and of this process, and the network",
                self._round_trips[-1],
                list(self._round_trips),
                SLOW_MICROSECONDS,
            )
            # Start over, to log the warning at most at every fourth beat.
            last = self._round_trips[-1]
            self._round_trips.clear()
            self._round_trips.append(last)


class ProcessInfo:
    """Describes this process for web pages and other processes.

    Args:
        embedded: the worker runs inside another program.
    """

    def __init__(self, config: Config, *, embedded: bool) -> None:
        self._config = config
        self._embedded = embedded
        self._started_at = config.clock.now()

    def describe(self, identity: str) -> dict[str, Any]:
        """Return the description, in the format of the Sidekiq version that ``wire_version`` selects."""
        version = self._config.redis.wire_version
        capsules = list(self._config.capsules.values())
        info: dict[str, Any] = {
            "hostname": identity.split(":", 1)[0],
            "started_at": self._started_at,
            "pid": os.getpid(),
            "tag": self._config.worker.tag,
            # Sidekiq 8 dropped it, but web pages of older versions on the same server need it.
            "concurrency": threads(self._config),
        }
        if version == 8:
            info["capsules"] = {
                capsule.name: {
                    "concurrency": capsule.concurrency,
                    "mode": capsule.mode,
                    "weights": capsule.weights(),
                }
                for capsule in capsules
            }
        info["queues"] = self.queues()
        if version != 6:
            info["weights"] = [capsule.weights() for capsule in capsules]
        info["labels"] = []
        info["identity"] = identity
        if version != 6:
            info["version"] = __version__
            info["embedded"] = self._embedded
        if application := app_version(self._config.client.app_version):
            info["app_version"] = application
        if self._config.routing.rules:
            info["routing"] = self._config.routing.rules.digest
        if self._config.worker.shard:
            info["shard"] = self._config.worker.shard
        if OBSTACLE:
            info["uninterruptible"] = OBSTACLE
        if state := gil.state():
            info["gil"] = state
        for field in self._config.info_fields:
            info |= self._told_by(field)
        return info

    def queues(self) -> list[str]:
        """Return the queues that the process serves."""
        return list(dict.fromkeys(queue for capsule in self._config.capsules.values() for queue in capsule.queues))

    def _told_by(self, field: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """Return the fields of an extension; none if it raises or they are not JSON."""
        try:
            told = dict(field())
            json.dumps(told)
        except Exception as error:  # noqa: BLE001 - a failing extension must not hide the process
            self._config.handle_error(error, {"context": "reading an extension's fields of the process"})
            return {}
        return told


def threads(config: Config) -> int:
    """Return the number of threads that take jobs."""
    return sum(capsule.concurrency for capsule in config.capsules.values())
