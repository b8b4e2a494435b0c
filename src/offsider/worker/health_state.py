"""The workers of a parent: their last reports, what the parent adds, and the answers of the health endpoint.

1. The first report of a worker registers it. The parent updates this data after each report and each beat.
2. `HealthState.live` asks for a restart only if a restart helps: never because Redis is unavailable, or because a job
   blocks the interpreter.
3. `HealthState.ready` reports whether workers claim jobs now.
4. The counts of runs are for scrapes; they outlive the single worker.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from offsider.core.series import Series
from offsider.storage.owners import Lists
from offsider.storage.redis import RedisSettings

#: States of a worker. One that has left the registries needs no action of its parent.
READY, QUIET, STOPPING, LEFT = "ready", "quiet", "stopping", "left"


@dataclass(frozen=True)
class Report:
    """The state of one worker.

    Attributes:
        lists: its identity and its private lists.
        life_ms: how long a beat keeps it alive.
        redis: server of its lists.
        state: ``"ready"``, ``"quiet"``, ``"stopping"`` or ``"left"``.
        stuck: permanent faults that it has detected in itself, such as a stuck fetch loop.
        max_strikes: ``worker.max_strikes`` after the application's configuration.
        beaten: the worker has just sent a liveness beat.
        stop_seconds: maximum duration of a stop; None until the worker runs.
    """

    lists: Lists
    life_ms: int
    redis: RedisSettings
    state: str = READY
    stuck: tuple[str, ...] = ()
    max_strikes: int = 3
    beaten: bool = False
    stop_seconds: float | None = None


@dataclass(frozen=True)
class CountedRuns:
    """Counts of a worker since its last message, and the number of its running jobs and of its threads."""

    series: Sequence[Series] = ()
    busy: int = 0
    concurrency: int = 0


@dataclass
class WorkerHealth:
    """One worker process. Times are in monotonic seconds.

    Attributes:
        report: its last report; a worker that was declared dead by mistake reports a new identity.
        told_at: time of that report; a worker whose interpreter is blocked sends none.
        beaten_at: time of the last successful beat; None before the first.
        beat_at: time of the next beat by the parent.
        busy: running jobs at the last heartbeat.
        concurrency: number of jobs that can run at once.
    """

    report: Report
    told_at: float = 0.0
    beaten_at: float | None = None
    beat_at: float = 0.0
    busy: int = 0
    concurrency: int = 0

    def not_ready(self, now: float) -> str:
        """Return the reason why this worker fetches no jobs; empty if it does."""
        life_seconds = self.report.life_ms / 1000
        if self.report.state != READY:
            return f" is {'exiting' if self.report.state == LEFT else self.report.state}"
        if self.beaten_at is None or now - self.beaten_at > life_seconds:
            return f": no heartbeat has reached Redis for {life_seconds:g} s"
        if now - self.told_at > life_seconds:
            return f" has not reported for {life_seconds:g} s; a job may block its interpreter"
        return ""


@dataclass
class HealthState:
    """All workers of a parent.

    Attributes:
        expected: expected number of workers.
        workers: by pid.
        series: counts of all workers so far, by their labels.
    """

    expected: int = 1
    workers: dict[int, WorkerHealth] = field(default_factory=dict[int, WorkerHealth])
    series: dict[tuple[tuple[str, str], ...], Series] = field(default_factory=dict[tuple[tuple[str, str], ...], Series])

    def count(self, pid: int, counted: CountedRuns) -> None:
        """Add the counts of a worker since its last message."""
        if pid in self.workers:
            self.workers[pid].busy, self.workers[pid].concurrency = counted.busy, counted.concurrency
        for each in counted.series:
            self.series.setdefault(tuple(sorted(each.labels.items())), Series(each.labels)).add(each)

    def live(self) -> list[str]:
        """Return reasons to restart all workers; empty if a restart would not help."""
        return [f"worker {pid}: {reason}" for pid, worker in self.workers.items() for reason in worker.report.stuck]

    def ready(self) -> list[str]:
        """Return reasons why too few workers claim jobs; empty if all expected workers do."""
        now = time.monotonic()
        found = {pid: worker.not_ready(now) for pid, worker in self.workers.items()}
        reasons = [f"worker {pid}{reason}" for pid, reason in found.items() if reason]
        taking = len(found) - len(reasons)
        if taking >= self.expected:
            # Stopping workers do not matter while enough others fetch jobs.
            reasons = []
        elif not reasons or len(found) < self.expected:
            reasons.append(f"{taking} of {self.expected} workers claim jobs")
        return [*self.live(), *reasons]
