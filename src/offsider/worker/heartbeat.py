"""Shows this process in Sidekiq's registry, flushes the counters, and takes signals that were left for it.

1. Add what was processed and failed since the last beat to the counters; what cannot be written is kept.
2. The same for what was counted of each job class.
3. Time a PING.
4. Write the process and its running jobs, and take a signal: one script.
5. Tell listeners: ``heartbeat`` at the first beat and after a partition, ``beat`` at each.
6. Between two beats, look for a signal a few times, so that ``offsider stop`` need not wait for the next one.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from offsider import __version__
from offsider.core.errors import RedisFailure, RedisRefused, RedisUnavailable
from offsider.jobs import registry
from offsider.storage import processes, registered, run_counts, stats
from offsider.storage.processes import Beat
from offsider.storage.shard_loads import Load
from offsider.wiring.app_version import app_version
from offsider.wiring.service import Loop
from offsider.worker.outage import Outage
from offsider.worker.promises import Promises
from offsider.worker.resident_memory import resident_kilobytes
from offsider.worker.shard_load import ShardLoad

if TYPE_CHECKING:
    from offsider.core.series import Series
    from offsider.storage.redis import Redis
    from offsider.storage.scripts import Argument
    from offsider.wiring.config import Config
    from offsider.worker.ownership import Ownership
    from offsider.worker.tallies import Taken
    from offsider.worker.work_state import WorkState

logger = logging.getLogger("offsider")

PAUSE_SECONDS = 10.0
PAUSE_SECONDS_OF_6 = 5.0
LOOK_SECONDS = 2.5
SLOW_MICROSECONDS = 50_000
ROUND_TRIPS = 5


class Heartbeat:
    """The service that makes this process visible.

    Args:
        quiet: tells whether the worker takes no more jobs.
        on_signal: gets ``TSTP``, ``TERM`` or ``TTIN``.
        embedded: the worker lives inside another program, which such signals are not meant for.
        count: told what was counted, when a health endpoint serves it to a monitoring system.
        beaten: called after each beat, when others know what this process can run.
    """

    def __init__(
        self,
        config: Config,
        redis: Redis,
        ownership: Ownership,
        work_state: WorkState,
        *,
        quiet: Callable[[], bool],
        on_signal: Callable[[str], None],
        embedded: bool,
        count: Callable[[Sequence[Series], int, int], None] | None = None,
        beaten: Callable[[], None] | None = None,
    ) -> None:
        self._config = config
        self._redis = redis
        self._ownership = ownership
        self._work_state = work_state
        self._quiet = quiet
        self._on_signal = on_signal
        self._embedded = embedded
        self._count = count
        self._beaten = beaten
        self._wire_version = config.redis.wire_version
        self._promises = Promises(config)
        self._load = ShardLoad(config.clock.monotonic())
        self._started_at = config.clock.now()
        self._round_trips: deque[int] = deque(maxlen=ROUND_TRIPS)
        self._shown_as = ""
        self._writing = threading.Lock()
        self._left = False
        self._outage = Outage("heartbeat", config)
        self._beat_due = 0.0
        self._beat_asked = False
        self._loop = Loop("offsider-heartbeat", self._beat_or_look, on_error=config.handle_error)
        self.name = self._loop.name
        self.start = self._loop.start
        self.stop = self._loop.stop
        self.join = self._loop.join

    def wake(self) -> None:
        """Beat now."""
        self._beat_asked = True
        self._loop.wake()

    def _beat_or_look(self) -> float:
        now = time.monotonic()
        if self._beat_asked or now >= self._beat_due:
            self._beat_asked = False
            self._beat_due = now + self.tick()
        elif not self._embedded:
            self.look()
        return min(LOOK_SECONDS, max(0.0, self._beat_due - now))

    def look(self) -> None:
        """Take a signal that was left since the last beat; while the server is away there is none."""
        with suppress(RedisFailure):
            signal = processes.take_signal(self._redis, self._shown_as or self._ownership.identity)
            if signal:
                self._on_signal(signal)

    def tick(self) -> float:
        """Beat once."""
        well = True
        # A full server refuses counters but not the rest: then the process must not vanish from the pages.
        for step in (self.flush_counters, self.flush_metrics, self._beat):
            try:
                step()
            except RedisFailure as error:
                well = False
                self._outage.noticed(error)
        if well:
            self._outage.over()
        return PAUSE_SECONDS_OF_6 if self._wire_version == 6 else PAUSE_SECONDS

    def flush_counters(self) -> None:
        """Write what was counted since the last time, or keep it for the next."""
        processed, failed = self._work_state.take_counts()
        day = datetime.fromtimestamp(self._config.clock.now(), UTC).strftime("%Y-%m-%d")
        try:
            stats.add(self._redis, processed=processed, failed=failed, day=day)
        except RedisFailure:
            self._work_state.give_back_counts(processed, failed)
            raise

    def flush_metrics(self) -> None:
        """Write what was counted of each class; what surely was not written is kept for the next time."""
        tallies, now = self._work_state.tallies, self._config.clock.now()
        taken = tallies.take()
        # What no label of an extension may replace comes last.
        series: Sequence[Series] = taken.series((*self._config.metric_labels, self._promises.labels))
        load = self._take_load(taken, now)
        shard = self._config.worker.shard
        try:
            run_counts.add(
                self._redis, taken.by_class(), series, now, wire_version=self._wire_version, load=load, shard=shard
            )
        except RedisFailure as error:
            if not (isinstance(error, RedisUnavailable) and error.ambiguous):
                tallies.give_back(taken)
                self._load.give_back(load)
                series = ()
            raise
        finally:
            if self._count is not None:
                self._count(series, self._work_state.busy, self._concurrency())

    def _take_load(self, taken: Taken, now: float) -> Load:
        """What the threads did."""
        if not self._config.worker.metrics:
            return Load()
        return self._load.take(
            self._config.clock.monotonic(),
            ended_seconds=taken.run_seconds,
            under_way_seconds=self._work_state.under_way_seconds(now),
            threads=self._concurrency(),
            quiet=self._quiet(),
        )

    def leave(self) -> None:
        """Take the process off the registry, for good."""
        with self._writing:
            self._left = True
            self._withdraw(self._shown_as or self._ownership.identity)

    def _withdraw(self, identity: str) -> None:
        processes.leave(self._redis, identity)
        registered.withdraw(self._redis, identity)

    def _beat(self) -> None:
        with self._writing:
            # A beat that is late must not bring a process back that has left.
            beat = None if self._left else self._write()
        if beat is None:
            return
        if beat.signal and not self._embedded:
            self._on_signal(beat.signal)
        if not beat.known:
            self._config.events.emit("heartbeat")
        self._config.events.emit("beat")
        if self._beaten is not None:
            self._beaten()
        processes.prune(self._redis)

    def _write(self) -> Beat:
        identity = self._ownership.identity
        if self._shown_as not in ("", identity):
            self._withdraw(self._shown_as)
        self._shown_as = identity
        self._time_round_trip()
        with suppress(RedisRefused):  # a full server: the process is to be seen all the same
            registered.publish(self._redis, identity, registry.signatures())
        return processes.heartbeat(
            self._redis,
            identity,
            self._fields(identity),
            self._work_state.as_sidekiq_shows(),
            wire_version=self._wire_version,
        )

    def _fields(self, identity: str) -> dict[str, Argument]:
        fields: dict[str, Argument] = {
            "info": json.dumps(self.info(identity), ensure_ascii=False, separators=(",", ":")),
            "concurrency": self._concurrency(),
            "busy": self._work_state.busy,
            "beat": repr(self._config.clock.now()),
            "rtt_us": self._round_trips[-1],
            "quiet": "true" if self._quiet() else "false",
            "rss": resident_kilobytes(),
        }
        return fields

    def info(self, identity: str) -> dict[str, Any]:
        """What the process says of itself, in the form of the Sidekiq that ``wire_version`` names."""
        capsules = list(self._config.capsules.values())
        info: dict[str, Any] = {
            "hostname": identity.split(":", 1)[0],
            "started_at": self._started_at,
            "pid": os.getpid(),
            "tag": self._config.worker.tag,
            # Version 8 dropped it, but pages of older versions that look at the same server need it.
            "concurrency": self._concurrency(),
        }
        if self._wire_version == 8:
            info["capsules"] = {
                capsule.name: {
                    "concurrency": capsule.concurrency,
                    "mode": capsule.mode,
                    "weights": capsule.weights(),
                }
                for capsule in capsules
            }
        info["queues"] = list(dict.fromkeys(queue for capsule in capsules for queue in capsule.queues))
        if self._wire_version != 6:
            info["weights"] = [capsule.weights() for capsule in capsules]
        info["labels"] = list(self._config.worker.labels)
        info["identity"] = identity
        if self._wire_version != 6:
            info["version"] = __version__
            info["embedded"] = self._embedded
        version = app_version(self._config.client.app_version)
        if version:
            info["app_version"] = version
        if self._config.routing.rules:
            info["routing"] = self._config.routing.rules.digest
        if self._config.worker.shard:
            info["shard"] = self._config.worker.shard
        for field in self._config.info_fields:
            info |= self._told_by(field)
        return info

    def _told_by(self, field: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """Fields of an extension; when it fails, or they are not JSON, the process is shown without them."""
        try:
            told = dict(field())
            json.dumps(told)
        except Exception as error:  # noqa: BLE001 - a field that is missing must not hide the whole process
            self._config.handle_error(error, {"context": "fields for the process's info"})
            return {}
        return told

    def _concurrency(self) -> int:
        return sum(capsule.concurrency for capsule in self._config.capsules.values())

    def _time_round_trip(self) -> None:
        started = time.perf_counter()
        self._redis.call("PING")
        self._round_trips.append(int((time.perf_counter() - started) * 1_000_000))
        if len(self._round_trips) == ROUND_TRIPS and min(self._round_trips) > SLOW_MICROSECONDS:
            logger.warning(
                "a round trip to Redis takes %d us (the last five: %s): over %d us jobs suffer; "
                "is the server or this process short of CPU, or the network far?",
                self._round_trips[-1],
                list(self._round_trips),
                SLOW_MICROSECONDS,
            )
            # Start over, so that the warning comes at every fourth beat at most.
            last = self._round_trips[-1]
            self._round_trips.clear()
            self._round_trips.append(last)
