"""Publishes this process in Sidekiq's registry, and flushes the counters.

1. Write the account of runs; counts that cannot be written are kept.
2. Measure a round trip, as Sidekiq does: of a PING, whose time contains no work of this process or of a script.
3. Write the process, its running jobs, the names of its queues, and the jobs that it can run if the server does not
   have them: one script.
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
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from offsider import __version__
from offsider.config.app_version import app_version
from offsider.config.routing import EVERY
from offsider.core.errors import RedisFailure
from offsider.jobs import registry
from offsider.runtime.outage import Outage
from offsider.runtime.service import Loop
from offsider.storage import events, leases, processes, releases
from offsider.worker.memory import resident_kilobytes
from offsider.worker.run_writer import RunWriter
from offsider.worker.work_state import ActivityReport

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


class Heartbeat(Loop):
    """The service that publishes this process.

    Args:
        quiet: returns whether the worker is quiet.
        embedded: the worker runs inside another program.
        coroutines: returns how many running jobs have no thread.
        count: receives the counts for a health endpoint that serves them to a monitoring system.
        beaten: called after each beat, when the registry contains the jobs that this process can run.

    Attributes:
        runs: writes the account of runs.
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
        self._embedded = embedded
        self._started_at = config.clock.now()
        self._round_trips: deque[int] = deque(maxlen=ROUND_TRIPS)
        self._shown_as = ""
        self._writing = threading.Lock()
        self._left = False
        self._outage = Outage("heartbeat", config)
        self._beat_due = self._prune_due = 0.0
        self._published = ""
        self._beat_asked = self._has_beaten = False
        self._ended = self._collected = work_state.runs.ended
        super().__init__("offsider-heartbeat", self._beat_or_report, config.handle_error)

    def wake(self) -> None:
        """Beat now."""
        self._beat_asked = True
        super().wake()

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
        if well and (downtime_seconds := self._outage.over()):
            self._note_reconnected(downtime_seconds)
        self._collect_garbage()
        return pause_seconds

    def _note_reconnected(self, downtime_seconds: float) -> None:
        """Report the end of an outage, once for all processes."""
        with suppress(RedisFailure):
            if leases.hold_lease(self._redis, events.RECONNECTED, self.identity, PAUSE_SECONDS):
                events.note(self._redis, events.RECONNECTED, self.identity, seconds=round(downtime_seconds, 1))

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
            self._config.events.emit("heartbeat")
        self._config.events.emit("beat")
        if release := app_version(self._config.client.app_version):
            now = self._config.clock.now()
            releases.note(self._redis, release, self._shown_as, now, first=not self._has_beaten)
            self._has_beaten = True
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
        started = time.perf_counter()
        self._redis.call("PING")
        self._note_round_trip(started)
        jobs = json.dumps(registry.signatures(), ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        known = self._write_fields(identity, jobs if jobs != self._published else None)
        if not known and jobs == self._published:
            self._write_fields(identity, jobs)
        self._published = jobs
        return known

    def _write_fields(self, identity: str, jobs: str | None) -> bool:
        fields = self._fields(identity) | ({} if jobs is None else {processes.JOBS: jobs})
        # Others may have been deleted: discovery finds those that contain jobs.
        specs = [spec for capsule in self._config.capsules.values() for spec in capsule.specs]
        queues = [spec.name for spec in specs if spec.name != EVERY]
        return self._activity.write(identity, fields, queues)

    def _fields(self, identity: str) -> dict[str, Argument]:
        info = describe(self._config, identity, self._started_at, embedded=self._embedded)
        return {
            "info": json.dumps(info, ensure_ascii=False, separators=(",", ":")),
            "concurrency": self._concurrency(),
            "beat": repr(self._config.clock.now()),
            "rtt_us": self._round_trips[-1],
            "quiet": "true" if self._quiet() else "false",
            "rss": resident_kilobytes(),
        }

    def _concurrency(self) -> int:
        """Return how many jobs can run now: one in each thread, and the coroutines that run beside them."""
        return threads(self._config) + self._coroutines()

    def _note_round_trip(self, started: float) -> None:
        self._round_trips.append(int((time.perf_counter() - started) * 1_000_000))
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


def describe(config: Config, identity: str, started_at: float, *, embedded: bool) -> dict[str, Any]:
    """Return the description of a process, in the format of the Sidekiq version that ``wire_version`` selects."""
    version, capsules = config.redis.wire_version, list(config.capsules.values())
    info: dict[str, Any] = {
        "hostname": identity.split(":", 1)[0],
        "started_at": started_at,
        "pid": os.getpid(),
        "tag": config.worker.tag,
        # Sidekiq 8 dropped it, but web pages of older versions on the same server need it.
        "concurrency": threads(config),
    }
    if version == 8:
        info["capsules"] = {
            capsule.name: {"concurrency": capsule.concurrency, "mode": capsule.mode, "weights": capsule.weights()}
            for capsule in capsules
        }
    info["queues"] = list(dict.fromkeys(queue for capsule in capsules for queue in capsule.queues))
    if version != 6:
        info["weights"] = [capsule.weights() for capsule in capsules]
    info |= {"labels": [], "identity": identity}
    if version != 6:
        info |= {"version": __version__, "embedded": embedded}
    if application := app_version(config.client.app_version):
        info["app_version"] = application
    if config.routing.rules:
        info["routing"] = config.routing.rules.digest
    if config.worker.shard:
        info["shard"] = config.worker.shard
    for field in config.info_fields:
        try:
            told = dict(field())
            json.dumps(told)
        except Exception as error:  # noqa: BLE001 - a failing extension must not hide the process
            config.handle_error(error, {"context": "reading an extension's fields of the process"})
        else:
            info |= told
    return info


def threads(config: Config) -> int:
    """Return the number of threads that take jobs."""
    return sum(capsule.concurrency for capsule in config.capsules.values())
