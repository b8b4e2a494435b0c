"""What a worker is doing and has done: read by the heartbeat, written by processors.

Made by the launcher, so that two workers in one process do not share numbers.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsider.worker.tallies import NOTHING_PROMISED, Tallies

if TYPE_CHECKING:
    from offsider.core.objectives import Target
    from offsider.worker.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class Work:
    """A job that runs now, and since when (epoch seconds)."""

    unit: UnitOfWork
    run_at: float


class WorkState:
    """Running jobs by thread id, and counts since they were last taken.

    A thread writes its own place in the table and no other, which needs no lock; the counts are added up for many
    jobs at once, under one.

    Args:
        target: what is promised of a class.
    """

    def __init__(self, target: Callable[[str], Target] = lambda _: NOTHING_PROMISED) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, UnitOfWork] = {}
        self._processed = 0
        self._failed = 0
        #: What was counted of each job class; empty with ``worker.metrics = false``.
        self.tallies = Tallies(target)

    def begin(self, tid: str, unit: UnitOfWork) -> None:
        self._running[tid] = unit

    def end(self, tid: str) -> None:
        self._running.pop(tid, None)

    def count(self, processed: int = 1, *, failed: int = 0) -> None:
        """So many jobs were processed, and so many of them failed."""
        with self._lock:
            self._processed += processed
            self._failed += failed

    def take_counts(self) -> tuple[int, int]:
        """Processed and failed since the last time; `give_back_counts` when they could not be written."""
        with self._lock:
            counts = self._processed, self._failed
            self._processed = self._failed = 0
            return counts

    def give_back_counts(self, processed: int, failed: int) -> None:
        self.count(processed, failed=failed)

    @property
    def busy(self) -> int:
        return len(self._running)

    def running(self) -> dict[str, Work]:
        return {tid: Work(unit, unit.started_at) for tid, unit in self._running.copy().items()}

    def under_way_seconds(self, now: float) -> float:
        """For how long the jobs that run at ``now`` (epoch seconds) have run, all together."""
        return sum(max(0.0, now - unit.started_at) for unit in self._running.copy().values())

    def as_sidekiq_shows(self) -> dict[str, str]:
        """Thread id -> JSON of queue, payload (a string inside JSON, as it was popped) and run_at."""
        return {
            tid: json.dumps(
                {
                    "queue": work.unit.queue,
                    "payload": work.unit.raw.decode("utf-8", "replace"),
                    "run_at": int(work.run_at),
                },
                ensure_ascii=False,
                separators=(",", ":"),
            )
            for tid, work in self.running().items()
        }
