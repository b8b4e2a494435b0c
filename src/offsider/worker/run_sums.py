"""Sums of what several workers have counted, for a scrape of the health endpoint: they outlive the single worker."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from copy import deepcopy

from offsider.core.series import Series


class RunSums:
    """Written by whoever hears of runs, read by whoever answers a scrape. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._series: dict[tuple[tuple[str, str], ...], Series] = {}
        #: pid -> jobs that run there, and that could.
        self._threads: dict[int, tuple[int, int]] = {}

    def add(self, pid: int, series: Sequence[Series], busy: int, concurrency: int) -> None:
        """Add what a worker has counted since the last time."""
        with self._lock:
            self._threads[pid] = busy, concurrency
            for each in series:
                labels = tuple(sorted(each.labels.items()))
                if labels in self._series:
                    self._series[labels].add(each)
                else:
                    self._series[labels] = deepcopy(each)

    def forget(self, pid: int) -> None:
        """A worker has ended. What it counted stays."""
        with self._lock:
            self._threads.pop(pid, None)

    def series(self) -> list[Series]:
        with self._lock:
            return deepcopy(list(self._series.values()))

    @property
    def busy(self) -> int:
        """Jobs that run now, as last told."""
        with self._lock:
            return sum(busy for busy, _ in self._threads.values())

    @property
    def concurrency(self) -> int:
        """Jobs that could run at a time."""
        with self._lock:
            return sum(concurrency for _, concurrency in self._threads.values())
