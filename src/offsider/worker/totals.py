"""Total counts of several workers, for scrapes of the health endpoint; they outlive the single worker."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

from offsider.core.series import Series


class Totals:
    """Written with each heartbeat of a worker, read by scrapes."""

    def __init__(self) -> None:
        self._series: dict[tuple[tuple[str, str], ...], Series] = {}
        #: pid -> running jobs, and threads.
        self._threads: dict[int, tuple[int, int]] = {}

    def add(self, pid: int, series: Sequence[Series], busy: int, concurrency: int) -> None:
        """Add the counts of a worker since its last message."""
        self._threads[pid] = busy, concurrency
        for each in series:
            self._series.setdefault(tuple(sorted(each.labels.items())), Series(each.labels)).add(each)

    def forget(self, pid: int) -> None:
        """Remove the threads of an ended worker. Its counts stay."""
        self._threads.pop(pid, None)

    def series(self) -> list[Series]:
        """Return a copy of the totals."""
        return deepcopy(list(self._series.values()))

    @property
    def busy(self) -> int:
        """Running jobs at the last heartbeats."""
        return sum(busy for busy, _ in self._threads.values())

    @property
    def concurrency(self) -> int:
        """Number of jobs that can run at once."""
        return sum(concurrency for _, concurrency in self._threads.values())
