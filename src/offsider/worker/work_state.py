"""Running jobs of a worker, and the account of its runs: written by the threads of jobs, read by the heartbeat.

`ActivityReport` shows them, jobs per second included, to our pages and to Ruby's.

Each launcher creates its own, so that two workers in one process do not share counts.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsider.storage import processes
from offsider.storage.activity import Activity, RunningJob, digest_of
from offsider.worker.run_account import NO_TARGET, Ended, RunAccount

if TYPE_CHECKING:
    from offsider.core.series import Target
    from offsider.storage.redis import Redis
    from offsider.storage.scripts import Argument
    from offsider.worker.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class RunningUnit:
    """A running job and its start time in epoch seconds."""

    unit: UnitOfWork
    run_at: float

    def as_sidekiq_shows(self) -> str:
        """Return JSON of queue, payload (a JSON string of the original bytes) and run_at."""
        payload = self.unit.raw.decode("utf-8", "replace")
        shown = {"queue": self.unit.queue, "payload": payload, "run_at": int(self.run_at)}
        return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


class WorkState:
    """Running jobs; each entry has one writer at a time, which needs no lock.

    Args:
        target: returns the SLO target of a class.
        recorded_per_second: maximum number of runs for the flight recorder.

    Attributes:
        runs: the account of ended runs.
    """

    def __init__(self, target: Callable[[str], Target] = lambda _: NO_TARGET, *, recorded_per_second: int = 0) -> None:
        self._running: dict[UnitOfWork, tuple[str, float]] = {}
        self.runs = RunAccount(target, recorded_per_second=recorded_per_second)

    def begin(self, tid: str, unit: UnitOfWork, started_at: float) -> None:
        """Record that a job runs since ``started_at``, in epoch seconds.

        Args:
            tid: of its thread as in log lines; unique among the running jobs. A second call replaces it.
        """
        self._running[unit] = (tid, started_at)

    def end(self, unit: UnitOfWork) -> None:
        self._running.pop(unit, None)

    @property
    def busy(self) -> int:
        return len(self._running)

    def running(self) -> dict[str, RunningUnit]:
        return {tid: RunningUnit(unit, started_at) for unit, (tid, started_at) in self._running.copy().items()}

    def under_way_seconds(self, now: float) -> float:
        """Return the total elapsed time of the running jobs at ``now``, in epoch seconds."""
        return sum(max(0.0, now - started_at) for _, started_at in self._running.copy().values())


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
    """Writes this process and its running jobs: all of it with a heartbeat, in between what has changed.

    Args:
        clock: epoch seconds; the same clock as the start times of jobs.
        wire_version: version of Sidekiq whose pages show the running jobs.
    """

    def __init__(self, redis: Redis, work_state: WorkState, clock: Callable[[], float], wire_version: int) -> None:
        self._redis = redis
        self._wire_version = wire_version
        self._work_state = work_state
        self._clock = clock
        #: Identity, rates and running jobs that the server has; None if unknown. Without references to jobs.
        self._written: tuple[str, tuple[float, float], Mapping[str, object]] | None = None
        self._rates = Rates()

    def write(self, identity: str, beat: Mapping[str, Argument] | None = None, queues: Sequence[str] = ()) -> bool:
        """Write a heartbeat, or a report if anything has changed; returns whether the process was registered before.

        Args:
            beat: the fields of a heartbeat; None for a report.
            queues: names to add to the set of queues.

        Raises:
            RedisFailure: it is unknown what was written; the next call writes everything.
        """
        works = self._work_state.running()
        self._rates.note(self._work_state.runs.ended)
        news = identity, self._rates.per_second(), {tid: (id(work.unit), work.run_at) for tid, work in works.items()}
        if beat is None and news == self._written:
            return True
        written, self._written = self._written, None
        shown, keys = None if written is None else written[2], news[2]
        if beat is not None and (shown or keys):
            shown = None  # a heartbeat restores what the server has lost
        known = processes.write(
            self._redis,
            identity,
            {**(beat or {}), "busy": len(works)},
            {tid: work.as_sidekiq_shows() for tid, work in works.items() if (shown or {}).get(tid) != keys[tid]},
            Activity(*news[1], running=self._running(works)),
            ended=None if shown is None else [tid for tid in shown if tid not in works],
            queues=queues,
            is_beat=beat is not None,
            wire_version=self._wire_version,
        )
        if known or beat is not None:
            self._written = news
        return known

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
