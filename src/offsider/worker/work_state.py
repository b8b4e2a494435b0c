"""Running jobs of a worker, and the account of its runs: written by processors, read by the heartbeat.

Each launcher creates its own, so that two workers in one process do not share counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsider.worker.run_account import NO_TARGET, RunAccount

if TYPE_CHECKING:
    from offsider.core.series import Target
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
    """Running jobs by thread id; a thread writes only its own entry, which needs no lock.

    Args:
        target: returns the SLO target of a class.

    Attributes:
        runs: the account of ended runs.
    """

    def __init__(self, target: Callable[[str], Target] = lambda _: NO_TARGET) -> None:
        self._running: dict[str, tuple[UnitOfWork, float]] = {}
        self.runs = RunAccount(target)

    def begin(self, tid: str, unit: UnitOfWork, started_at: float) -> None:
        """Record that a thread runs a job since ``started_at``, in epoch seconds."""
        self._running[tid] = (unit, started_at)

    def end(self, tid: str) -> None:
        self._running.pop(tid, None)

    @property
    def busy(self) -> int:
        return len(self._running)

    def running(self) -> dict[str, RunningUnit]:
        return {tid: RunningUnit(*running) for tid, running in self._running.copy().items()}

    def under_way_seconds(self, now: float) -> float:
        """Return the total elapsed time of the running jobs at ``now``, in epoch seconds."""
        return sum(max(0.0, now - started_at) for _, started_at in self._running.copy().values())
