"""Writes the counts of this process: jobs processed and failed, those of each class, and the time of its threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from offsider.core.errors import RedisFailure, RedisUnavailable
from offsider.core.series import Load
from offsider.storage import run_counts, stats
from offsider.storage.series import MINUTE
from offsider.worker.slo_targets import SloTargets

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.core.series import Series
    from offsider.storage.redis import Redis
    from offsider.worker.activity import Rates
    from offsider.worker.run_counts import Snapshot
    from offsider.worker.work_state import WorkState


class CountWriter:
    """Writes what `WorkState` counts.

    Args:
        rates: receives the jobs that were written.
        quiet: returns whether the worker is quiet.
        concurrency: returns how many jobs can run now.
        count: receives the counts for a health endpoint that serves them to a monitoring system.
    """

    def __init__(
        self,
        config: Config,
        redis: Redis,
        work_state: WorkState,
        rates: Rates,
        *,
        quiet: Callable[[], bool],
        concurrency: Callable[[], int],
        count: Callable[[Sequence[Series], int, int], None] | None = None,
    ) -> None:
        self._config = config
        self._redis = redis
        self._work_state = work_state
        self._rates = rates
        self._quiet = quiet
        self._concurrency = concurrency
        self._count = count
        self._targets = SloTargets(config)
        self._thread_time = ThreadTime(config.clock.monotonic())

    def write_totals(self) -> None:
        """Write the jobs processed and failed since the last call, or keep them for the next one."""
        processed, failed = self._work_state.take_counts()
        day = datetime.fromtimestamp(self._config.clock.now(), UTC).strftime("%Y-%m-%d")
        try:
            stats.add(self._redis, processed=processed, failed=failed, day=day)
        except RedisFailure:
            self._work_state.give_back_counts(processed, failed)
            raise
        self._rates.note(processed, failed)

    def write_classes(self, *, wait_seconds: float = 0.0) -> None:
        """Write the counts of each class by minute. Counts that were certainly not written are kept for the next call.

        Args:
            wait_seconds: time until the next call; 0 for the last call. Within the same minute, the step of its
                series, the time of idle threads waits for that call: an idle worker writes it once a minute.
        """
        counted, now = self._work_state.run_counts, self._config.clock.now()
        taken = counted.take()
        load = self._take_load(taken, now)
        same_minute = wait_seconds and now // MINUTE.seconds == (now + wait_seconds) // MINUTE.seconds
        if same_minute and not taken.counters and not load.run_seconds:
            self._thread_time.restore(load)
            load = Load()
        minutes = taken.by_minute(now)
        written: list[Series] = []
        try:
            while minutes:
                minute, counts = minutes[0]
                # The load is that of the last minute.
                self._write(minute, counts, Load() if minutes[1:] else load, written)
                del minutes[0]
        except RedisFailure as error:
            if isinstance(error, RedisUnavailable) and error.ambiguous:
                del minutes[0]
            for _, counts in minutes:
                counted.restore(counts)
            if minutes:
                self._thread_time.restore(load)
            raise
        finally:
            if self._count is not None:
                self._count(written, self._work_state.busy, self._concurrency())

    def _write(self, minute: float, counts: Snapshot, load: Load, written: list[Series]) -> None:
        # Our own labels are last, so that labels of extensions cannot replace them.
        series = counts.series((*self._config.metric_labels, self._targets.labels))
        shard, wire_version = self._config.worker.shard, self._config.redis.wire_version
        try:
            run_counts.add(
                self._redis, counts.by_class(), series, minute, wire_version=wire_version, load=load, shard=shard
            )
        except RedisUnavailable as error:
            if error.ambiguous:
                written += series
            raise
        written += series

    def _take_load(self, taken: Snapshot, now: float) -> Load:
        """Return the thread time since the last call."""
        if not self._config.worker.metrics:
            return Load()
        return self._thread_time.take(
            self._config.clock.monotonic(),
            ended_seconds=taken.run_seconds,
            under_way_seconds=self._work_state.under_way_seconds(now),
            threads=self._concurrency(),
            quiet=self._quiet(),
        )


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
