"""The health of a parent's workers: plain data, written by the parent, read by the health endpoint.

1. The first report of a worker registers it. The parent updates this data after each report and each beat.
2. `HealthState.live` asks for a restart only if a restart helps: never because Redis is unavailable, or because a job
   blocks the interpreter.
3. `HealthState.ready` reports whether workers claim jobs now.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

STARTING, READY, QUIET, STOPPING = "starting", "ready", "quiet", "stopping"


@dataclass
class WorkerHealth:
    """One worker process.

    Attributes:
        pid: its process.
        identity: its current identity in Redis; a worker that was declared dead by mistake gets a new one.
        state: ``"starting"``, ``"ready"``, ``"quiet"`` or ``"stopping"``.
        life_seconds: how long a beat keeps it alive.
        beaten_at: time of the last successful beat in monotonic seconds; None before the first.
        told_at: time of its last report in monotonic seconds; a worker whose interpreter is blocked sends none.
        stuck: permanent faults that it has detected in itself, such as a stuck fetch loop.
    """

    pid: int
    identity: str = ""
    state: str = STARTING
    life_seconds: float = 45.0
    beaten_at: float | None = None
    told_at: float | None = None
    stuck: tuple[str, ...] = ()

    def not_ready(self, now: float) -> list[str]:
        """Return the reasons why this worker fetches no jobs; empty if it does."""
        if self.state != READY:
            return [f"worker {self.pid} is {self.state}"]
        if self.beaten_at is None or now - self.beaten_at > self.life_seconds:
            return [f"worker {self.pid}: no heartbeat has reached Redis for {self.life_seconds:g} s"]
        if self.told_at is None or now - self.told_at > self.life_seconds:
            return [f"worker {self.pid} has not reported for {self.life_seconds:g} s; a job may block its interpreter"]
        return []


@dataclass
class HealthState:
    """All workers of a parent.

    Attributes:
        expected: expected number of workers.
        workers: by pid.
    """

    expected: int = 1
    workers: dict[int, WorkerHealth] = field(default_factory=dict[int, WorkerHealth])

    def live(self) -> list[str]:
        """Return reasons to restart all workers; empty if a restart would not help."""
        return [f"worker {worker.pid}: {reason}" for worker in self.workers.values() for reason in worker.stuck]

    def ready(self) -> list[str]:
        """Return reasons why too few workers claim jobs; empty if all expected workers do."""
        now = time.monotonic()
        workers = list(self.workers.values())
        reasons = [reason for worker in workers for reason in worker.not_ready(now)]
        taking = sum(not worker.not_ready(now) for worker in workers)
        if taking >= self.expected:
            # Stopping workers do not matter while enough others fetch jobs.
            reasons = []
        elif not reasons or len(workers) < self.expected:
            reasons.append(f"{taking} of {self.expected} workers claim jobs")
        return [*self.live(), *reasons]
