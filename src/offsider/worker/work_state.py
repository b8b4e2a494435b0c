"""Running jobs and counts of a worker: written by processors, read by the heartbeat.

Each launcher creates its own, so that two workers in one process do not share counts.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsider.core.wording import counted
from offsider.worker.run_counts import NO_TARGET, RunCounts

if TYPE_CHECKING:
    from offsider.core.slo import Target
    from offsider.worker.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class Work:
    """A running job and its start time in epoch seconds."""

    unit: UnitOfWork
    run_at: float

    def as_sidekiq_shows(self) -> str:
        """Return JSON of queue, payload (a JSON string of the original bytes) and run_at."""
        payload = self.unit.raw.decode("utf-8", "replace")
        shown = {"queue": self.unit.queue, "payload": payload, "run_at": int(self.run_at)}
        return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Ended:
    """Number of ended jobs by result."""

    finished: int = 0
    requeued: int = 0
    failed: int = 0

    def plus(self, finished: int = 0, requeued: int = 0, failed: int = 0) -> Ended:
        return Ended(self.finished + finished, self.requeued + requeued, self.failed + failed)

    def since(self, before: Ended) -> str:
        """Return the difference as text: ``3 jobs finished, 1 requeued, 0 failed``."""
        finished = counted(self.finished - before.finished, "job")
        return f"{finished} finished, {self.requeued - before.requeued} requeued, {self.failed - before.failed} failed"


class WorkState:
    """Running jobs by thread id, and counts since `take_counts`.

    A thread writes only its own entry of the table, which needs no lock. Counts are added for many jobs at once, under
    a lock.

    Args:
        target: returns the SLO target of a class.
    """

    def __init__(self, target: Callable[[str], Target] = lambda _: NO_TARGET) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, tuple[UnitOfWork, float]] = {}
        self._processed = 0
        self._failed = 0
        self._ended = Ended()
        #: Counts of each job class; empty with ``worker.metrics = false``.
        self.run_counts = RunCounts(target)

    def begin(self, tid: str, unit: UnitOfWork, started_at: float) -> None:
        """Record that a thread runs a job since ``started_at``, in epoch seconds."""
        self._running[tid] = (unit, started_at)

    def end(self, tid: str) -> None:
        self._running.pop(tid, None)

    def count(self, processed: int = 1, *, failed: int = 0) -> None:
        """Count processed jobs; ``failed`` is the number of them that failed."""
        with self._lock:
            self._processed += processed
            self._failed += failed
            self._ended = self._ended.plus(finished=processed - failed, failed=failed)

    def count_requeued(self, jobs: int = 1) -> None:
        """Count jobs that were requeued because the worker is stopping."""
        with self._lock:
            self._ended = self._ended.plus(requeued=jobs)

    @property
    def ended(self) -> Ended:
        """Results of all jobs so far."""
        return self._ended

    def take_counts(self) -> tuple[int, int]:
        """Return processed and failed jobs since the last call; `give_back_counts` if they could not be written."""
        with self._lock:
            counts = self._processed, self._failed
            self._processed = self._failed = 0
            return counts

    def give_back_counts(self, processed: int, failed: int) -> None:
        with self._lock:
            self._processed += processed
            self._failed += failed

    @property
    def busy(self) -> int:
        return len(self._running)

    def running(self) -> dict[str, Work]:
        return {tid: Work(*running) for tid, running in self._running.copy().items()}

    def under_way_seconds(self, now: float) -> float:
        """Return the total elapsed time of the running jobs at ``now``, in epoch seconds."""
        return sum(max(0.0, now - started_at) for _, started_at in self._running.copy().values())
