"""Reports a worker's activity between heartbeats: jobs per second and running jobs, for our pages and for Ruby's."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from offsider.storage import activity
from offsider.storage.activity import Activity, RunningJob, digest_of
from offsider.storage.processes import work_key
from offsider.worker.run_account import Ended

if TYPE_CHECKING:
    from offsider.storage.redis import Redis
    from offsider.worker.work_state import RunningUnit, WorkState

#: Averaging window of rates, so that a page does not flicker with each batch of acknowledgements.
WINDOW_SECONDS = 5.0


class Rates:
    """Processed and failed runs per second over the last `WINDOW_SECONDS`.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        #: Time and results so far, earliest first.
        self._noted: deque[tuple[float, Ended]] = deque([(clock(), Ended())])

    def note(self, ended: Ended) -> None:
        """Note the results of all jobs so far."""
        if self._noted[0][1] == self._noted[-1][1]:
            # After idle time, a new burst starts a new window.
            while len(self._noted) > 1:
                self._noted.popleft()
        now = self._clock()
        self._noted.append((now, ended))
        while self._noted[1][0] <= now - WINDOW_SECONDS:
            self._noted.popleft()

    def per_second(self) -> tuple[float, float]:
        """Return processed and failed runs per second."""
        (since, before), (until, ended) = self._noted[0], self._noted[-1]
        seconds, failed = max(until - since, 1e-3), ended.failed - before.failed
        return (ended.finished - before.finished + failed) / seconds, failed / seconds


class ActivityReport:
    """Writes an activity report whenever it differs from the last one.

    Args:
        clock: epoch seconds; the same clock as the start times of jobs.
        wire_version: version of Sidekiq whose pages show the running jobs.
    """

    def __init__(self, redis: Redis, work_state: WorkState, clock: Callable[[], float], wire_version: int) -> None:
        self._redis = redis
        self._wire_version = wire_version
        self._work_state = work_state
        self._clock = clock
        self._last: object = None
        #: Thread id -> running job that Ruby's pages show; None if unknown. Without references to jobs.
        self._shown: Mapping[str, object] | None = None
        self._rates = Rates()

    def forget(self) -> None:
        """Forget the last report after the server has lost it, so that the next call writes one."""
        self._last = None

    def shown(self, works: Mapping[str, RunningUnit]) -> None:
        """Note that a heartbeat has written the running jobs."""
        self._shown = _keys_of(works)

    def write(self, identity: str) -> None:
        """Write a report if anything has changed.

        Raises:
            RedisFailure: the report was not written; the next call retries.
        """
        works = self._work_state.running()
        self._rates.note(self._work_state.runs.ended)
        rates = self._rates.per_second()
        keys = _keys_of(works)
        news = (identity, rates, keys)
        if news == self._last:
            return
        self._last = None
        before, self._shown = self._shown, None
        known = before or {}
        if activity.report(
            self._redis,
            identity,
            Activity(*rates, running=self._running(works)),
            len(works),
            work_key=work_key(self._redis.keys, identity, self._wire_version),
            ended=None if before is None else [tid for tid in before if tid not in works],
            begun={tid: work.as_sidekiq_shows() for tid, work in works.items() if known.get(tid) != keys[tid]},
        ):
            self._last, self._shown = news, keys

    def _running(self, works: dict[str, RunningUnit]) -> dict[str, RunningJob] | None:
        now = self._clock()
        running: dict[str, RunningJob] = {}
        for tid, work in works.items():
            owner = work.unit.owner
            if owner is None:  # the basic fetcher has no private lists
                return None
            elapsed_seconds = max(0.0, now - work.run_at)
            running[tid] = RunningJob(owner.capsule, work.unit.queue, digest_of(work.unit.raw), elapsed_seconds)
        return running


def _keys_of(works: Mapping[str, RunningUnit]) -> dict[str, object]:
    return {tid: (id(work.unit), work.run_at) for tid, work in works.items()}
