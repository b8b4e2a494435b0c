"""Run counts and thread load, as totals that only grow."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

#: Upper bounds of Sidekiq's histogram in seconds; one more bucket counts longer runs, as in all histograms.
SIDEKIQ_SECONDS = (
    0.02, 0.03, 0.045, 0.065, 0.1, 0.15, 0.225, 0.335, 0.5, 0.75, 1.1, 1.7, 2.5,
    3.8, 5.75, 8.5, 13.0, 20.0, 30.0, 45.0, 65.0, 100.0, 150.0, 225.0, 335.0,
)  # fmt: skip
#: Upper bounds of the histograms of monitoring systems in seconds, as in GitLab's dashboards.
BOUNDS_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 300.0, 600.0)
#: Bounds of both: one search finds the bucket of a run, and `regroup` returns either histogram.
DURATION_SECONDS = tuple(sorted({*SIDEKIQ_SECONDS, *BOUNDS_SECONDS}))
MICROSECONDS = 1_000_000

#: Execution time targets by urgency, as GitLab's.
RUN_SECONDS = {"high": 10.0, "low": 300.0, "throttled": 300.0}


@dataclass(frozen=True, slots=True)
class Target:
    """The targets of a run in seconds: queue latency and duration; infinite for no target."""

    queue_seconds: float
    run_seconds: float


def _run_buckets() -> list[int]:
    return [0] * (len(DURATION_SECONDS) + 1)


def _queue_buckets() -> list[int]:
    return [0] * (len(BOUNDS_SECONDS) + 1)


@dataclass(slots=True)
class Series:
    """Counts of all runs with the same labels.

    Attributes:
        labels: ``class``, ``queue``, ``urgency`` and, if known, ``feature_category``, ``boundary`` and ``shard``; and
            labels of extensions.
        processed: runs with any outcome.
        failed: runs that raised.
        retried: runs of `failed` that will be retried.
        satisfied: runs that met the targets of their class; none of them is in `failed`.
        run_seconds, failed_seconds: wall time of all runs, and of those that raised.
        cpu_seconds: CPU time of their threads.
        measured_seconds: wall time of the runs whose CPU time is in `cpu_seconds`.
        queue_seconds: total queue latency, of the runs whose payload has the enqueue time.
        run_buckets, failed_buckets: all runs, and those that raised, by duration, up to `DURATION_SECONDS`.
        queue_buckets: the runs of `queue_seconds` by queue latency, up to `BOUNDS_SECONDS`.
    """

    labels: Mapping[str, str]
    processed: int = 0
    failed: int = 0
    retried: int = 0
    satisfied: int = 0
    run_seconds: float = 0.0
    failed_seconds: float = 0.0
    cpu_seconds: float = 0.0
    measured_seconds: float = 0.0
    queue_seconds: float = 0.0
    run_buckets: list[int] = field(default_factory=_run_buckets)
    failed_buckets: list[int] = field(default_factory=_run_buckets)
    queue_buckets: list[int] = field(default_factory=_queue_buckets)

    @property
    def late(self) -> int:
        """Runs that did not raise, and missed a target of their class."""
        return max(0, self.processed - self.failed - self.satisfied)

    def add(self, other: Series) -> None:
        """Add the counts of another series."""
        for name in _COUNTS:
            count, further = getattr(self, name), getattr(other, name)
            added = [sum(pair) for pair in zip(count, further, strict=True)] if name in _LISTS else count + further
            setattr(self, name, added)

    def cells(self, names: Sequence[str], per_second: int) -> list[int]:
        """Return counts as integers, in the order of their names; times in parts of a second."""
        cells: list[int] = []
        for name in names:
            count: Any = getattr(self, name)
            cells += count if name in _LISTS else [round(count * per_second) if name in _SECONDS else count]
        return cells

    @classmethod
    def of(cls, labels: Mapping[str, str], cells: Sequence[int], names: Sequence[str], per_second: int) -> Series:
        """The inverse of `cells`."""
        series, numbers = cls(labels), iter(cells)
        for name in names:
            if name in _LISTS:
                buckets = getattr(series, name)
                buckets[:] = [next(numbers) for _ in buckets]
            else:
                setattr(series, name, next(numbers) / per_second if name in _SECONDS else next(numbers))
        return series


_COUNTS = [each.name for each in fields(Series) if each.name != "labels"]
# The annotations are texts: of `from __future__ import annotations`.
_SECONDS = {each.name for each in fields(Series) if each.type == "float"}
_LISTS = {each.name for each in fields(Series) if each.type == "list[int]"}


def summed(series: Iterable[Series], names: Sequence[str]) -> list[Series]:
    """Return the sums of the series whose labels ``names`` are equal, without other labels."""
    sums: dict[tuple[tuple[str, str], ...], Series] = {}
    for one in series:
        labels = {name: one.labels[name] for name in names if one.labels.get(name)}
        sums.setdefault(tuple(labels.items()), Series(labels)).add(one)
    return [*sums.values()]


def regroup(run_buckets: Sequence[int], bounds: Sequence[float]) -> list[int]:
    """Return runs by duration in the buckets of `SIDEKIQ_SECONDS` or `BOUNDS_SECONDS`."""
    grouped = [0] * (len(bounds) + 1)
    for bound, count in zip((*DURATION_SECONDS, math.inf), run_buckets, strict=True):
        grouped[bisect_left(bounds, bound)] += count
    return grouped


@dataclass(frozen=True, slots=True)
class Load:
    """Load of threads: total seconds in which they ran jobs, and in which they existed."""

    run_seconds: float = 0.0
    thread_seconds: float = 0.0

    def __add__(self, other: Load) -> Load:
        return Load(self.run_seconds + other.run_seconds, self.thread_seconds + other.thread_seconds)
