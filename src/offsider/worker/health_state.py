"""How the workers of this machine's keeper fare: plain data, written by the keeper, read by the health endpoint.

1. A worker is known from its first report on; the keeper writes here what each report says and what Redis answers.
2. `HealthState.live` asks for a restart only when a restart helps: never because Redis is away, nor because a job
   holds the interpreter.
3. `HealthState.ready` asks whether new jobs are taken right now.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

STARTING, READY, QUIET, STOPPING = "starting", "ready", "quiet", "stopping"


@dataclass
class WorkerHealth:
    """One worker process.

    Attributes:
        pid: of the process.
        identity: as it is in Redis now; a worker that was declared dead by mistake takes a new one.
        state: ``"starting"``, ``"ready"``, ``"quiet"`` or ``"stopping"``.
        life_seconds: how long a beat keeps it alive.
        beaten_at: when Redis last took a beat for it, by the monotonic clock; None before the first.
        told_at: when it last reported, by the same clock; one whose interpreter is held by a job is silent.
        stuck: what it says is broken in itself and stays broken, such as a fetch loop that does not turn.
    """

    pid: int
    identity: str = ""
    state: str = STARTING
    life_seconds: float = 45.0
    beaten_at: float | None = None
    told_at: float | None = None
    stuck: tuple[str, ...] = ()

    def not_ready(self, now: float) -> list[str]:
        """Why no new jobs are taken here; empty when they are."""
        if self.state != READY:
            return [f"worker {self.pid} is {self.state}"]
        if self.beaten_at is None or now - self.beaten_at > self.life_seconds:
            return [f"worker {self.pid}: Redis has taken no beat for a liveness life ({self.life_seconds:g} s)"]
        if self.told_at is None or now - self.told_at > self.life_seconds:
            return [f"worker {self.pid} is silent for a liveness life: does a job hold its interpreter?"]
        return []


@dataclass
class HealthState:
    """All workers of a keeper.

    Attributes:
        expected: how many workers there shall be.
        workers: by pid. Replaced as a whole, so that a reader in another thread sees one state.
    """

    expected: int = 1
    workers: dict[int, WorkerHealth] = field(default_factory=dict[int, WorkerHealth])

    def live(self) -> list[str]:
        """Reasons for a restart of the whole; empty when it is as alive as a restart could make it."""
        return [f"worker {worker.pid}: {reason}" for worker in self.workers.values() for reason in worker.stuck]

    def ready(self) -> list[str]:
        """Reasons why jobs are not taken as they should be; empty when all expected workers take jobs."""
        now = time.monotonic()
        workers = list(self.workers.values())
        reasons = [reason for worker in workers for reason in worker.not_ready(now)]
        taking = sum(not worker.not_ready(now) for worker in workers)
        if taking >= self.expected:
            # Those that are on their way out, beside enough others, are no lack.
            reasons = []
        elif not reasons or len(workers) < self.expected:
            reasons.append(f"{taking} of {self.expected} workers take jobs")
        return [*self.live(), *reasons]
