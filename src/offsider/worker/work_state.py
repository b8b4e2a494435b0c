"""What a worker is doing and has done: read by the heartbeat, written by processors.

Made by the launcher, so that two workers in one process do not share numbers.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offsider.worker.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class Work:
    """A job that runs now, and since when (epoch seconds)."""

    unit: UnitOfWork
    run_at: float


class WorkState:
    """Running jobs by thread id, and counts since they were last taken."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, Work] = {}
        self._processed = 0
        self._failed = 0

    def begin(self, tid: str, unit: UnitOfWork, run_at: float) -> None:
        with self._lock:
            self._running[tid] = Work(unit, run_at)

    def end(self, tid: str) -> None:
        with self._lock:
            self._running.pop(tid, None)

    def count(self, *, failed: bool) -> None:
        with self._lock:
            self._processed += 1
            self._failed += failed

    def take_counts(self) -> tuple[int, int]:
        """Processed and failed since the last time; `give_back_counts` when they could not be written."""
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
        with self._lock:
            return dict(self._running)

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
