"""Stores the account of this process's runs, and the time of its threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from offsider.config.app_version import app_version
from offsider.core.characteristics import Characteristics
from offsider.core.errors import RedisFailure, RedisUnavailable
from offsider.core.series import Load, Target
from offsider.jobs import registry
from offsider.storage import finished_runs, run_counts
from offsider.storage.series import MINUTE

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.core.series import Series
    from offsider.storage.redis import Redis
    from offsider.worker.run_account import Taken
    from offsider.worker.work_state import WorkState

_UNKNOWN = Characteristics()


def target_of(config: Config, name: str) -> Target:
    """Return the SLO target for the urgency of a class."""
    return config.slo.target(_characteristics(name).urgency)


def labels_of(config: Config, name: str) -> Mapping[str, str]:
    """Return ``urgency``, and ``feature_category``, ``boundary`` and ``shard`` if they are set."""
    declared = _characteristics(name)
    labels = {
        "urgency": declared.urgency,
        "feature_category": declared.feature_category,
        "boundary": "" if declared.resource_boundary == "none" else declared.resource_boundary,
        "shard": config.worker.shard,
    }
    return {label: value for label, value in labels.items() if value}


def _characteristics(name: str) -> Characteristics:
    declared = registry.peek(name)
    return _UNKNOWN if declared is None else declared.characteristics


class RunWriter:
    """Stores the account: the totals each second, and the counts of classes with each heartbeat.

    Both are one flush: Sidekiq's keys and the series are written in one transaction per minute. A process that is
    killed loses what it has counted since its last flush: up to a second of totals and ten seconds of classes.

    Args:
        quiet: returns whether the worker is quiet.
        concurrency: returns how many jobs can run now.
        count: receives the counts for a health endpoint that serves them to a monitoring system.
    """

    def __init__(
        self,
        config: Config,
        redis: Redis,
        work_state: WorkState,
        *,
        quiet: Callable[[], bool],
        concurrency: Callable[[], int],
        count: Callable[[Sequence[Series], int, int], None] | None = None,
    ) -> None:
        self._config = config
        self._redis = redis
        self._work_state = work_state
        self._quiet = quiet
        self._concurrency = concurrency
        self._count = count
        self._release = app_version(config.client.app_version)
        self._numbers: dict[finished_runs.Kind, int] = {}
        self._thread_time = ThreadTime(config.clock.monotonic())

    def write_totals(self) -> None:
        """Write the claimed, processed and failed jobs since the last call."""
        taken = self._work_state.runs.take(classes=False)
        if taken.processed or taken.claimed:
            self._write_minutes(taken, Load(), [])
            self._record(taken)

    def write(self, *, wait_seconds: float = 0.0) -> None:
        """Write everything. Counts that were certainly not written are kept for the next call.

        Args:
            wait_seconds: time until the next call; 0 for the last call. Within the same minute, the step of its
                series, the time of idle threads waits for that call: an idle worker writes it once a minute.
        """
        taken, now = self._work_state.runs.take(), self._config.clock.now()
        load = self._thread_time.take(
            self._config.clock.monotonic(),
            ended_seconds=taken.run_seconds,
            under_way_seconds=self._work_state.under_way_seconds(now),
            threads=self._concurrency(),
            quiet=self._quiet(),
        )
        same_minute = wait_seconds and now // MINUTE.seconds == (now + wait_seconds) // MINUTE.seconds
        if same_minute and not taken.counts and not load.run_seconds:
            self._thread_time.restore(load)
            load = Load()
        written: list[Series] = []
        try:
            self._write_minutes(taken, load, written)
            self._record(taken)
        finally:
            if self._count is not None:
                self._count(written, self._work_state.busy, self._concurrency())

    def _record(self, taken: Taken) -> None:
        if taken.recorded:
            finished_runs.add(self._redis, taken.recorded, self._release, self._numbers)

    def _write_minutes(self, taken: Taken, load: Load, written: list[Series]) -> None:
        minutes = taken.by_minute(self._config.clock.now())
        try:
            while minutes:
                minute, counts = minutes[0]
                # The load is that of the last minute.
                self._write_minute(minute, counts, Load() if minutes[1:] else load, written)
                del minutes[0]
        except RedisFailure as error:
            if isinstance(error, RedisUnavailable) and error.ambiguous:
                del minutes[0]
            for _, counts in minutes:
                self._work_state.runs.restore(counts)
            if minutes:
                self._thread_time.restore(load)
            raise

    def _write_minute(self, minute: float, counts: Taken, load: Load, written: list[Series]) -> None:
        # Our own labels are last, so that labels of extensions cannot replace them.
        series = counts.series((*self._config.metric_labels, lambda name, _: labels_of(self._config, name)))
        try:
            run_counts.add(
                self._redis,
                series,
                minute,
                totals=counts.totals,
                claimed=counts.claimed,
                sources=counts.by_source(),
                release=self._release,
                load=load,
                shard=self._config.worker.shard,
                wire_version=self._config.redis.wire_version,
            )
        except RedisUnavailable as error:
            if error.ambiguous:
                written += series
            raise
        written += series


class ThreadTime:
    """How long the threads of this process ran jobs, and how long they existed, since the last heartbeat.

    Current runs count as well as finished ones. Otherwise a shard with one-hour jobs would look idle, and then busier
    than its threads allow. The elapsed time of current runs is counted once, and subtracted from their duration at the
    end. The measurement costs nothing per run.

    Args:
        now: start of the threads in monotonic seconds.
    """

    def __init__(self, now: float) -> None:
        self._asked_at = now
        self._under_way = 0.0
        self._was_quiet = False
        self._kept = Load()

    def take(
        self, now: float, *, ended_seconds: float, under_way_seconds: float, threads: int, quiet: bool = False
    ) -> Load:
        """Return the load since the last call; `restore` it if it could not be written.

        Args:
            now: monotonic seconds.
            ended_seconds: total duration of the runs that have ended since the last call.
            under_way_seconds: total elapsed time of the current runs.
            threads: number of threads.
            quiet: the threads fetch no more jobs. From then on a thread exists only while it still runs one.
        """
        # Interrupted runs were counted as current and never count as ended: the result must not become negative.
        ran = max(0.0, ended_seconds + under_way_seconds - self._under_way)
        there = ran if self._was_quiet else threads * max(0.0, now - self._asked_at)
        self._asked_at, self._under_way, self._was_quiet = now, under_way_seconds, quiet
        taken, self._kept = self._kept + Load(ran, there), Load()
        return taken

    def restore(self, load: Load) -> None:
        """Add a load that could not be written to the next one."""
        self._kept += load
