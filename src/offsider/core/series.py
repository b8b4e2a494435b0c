"""Run counts and thread load, as totals that only grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

#: Upper bounds of the histograms in seconds, as in GitLab's dashboards; one more bucket counts longer runs.
BOUNDS_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 300.0, 600.0)
_BUCKETS = len(BOUNDS_SECONDS) + 1
_COUNTS = ("processed", "failed", "retried", "satisfied")
_SECONDS = ("run_seconds", "cpu_seconds", "queue_seconds")
#: Number of values that `Series.cells` returns.
CELLS = len(_COUNTS) + len(_SECONDS) + 2 * _BUCKETS
MICROSECONDS = 1_000_000


def _no_counts() -> list[int]:
    return [0] * _BUCKETS


#: Execution time targets by urgency, as GitLab's.
RUN_SECONDS = {"high": 10.0, "low": 300.0, "throttled": 300.0}


@dataclass(frozen=True, slots=True)
class Target:
    """The targets of a run in seconds: queue latency and duration; infinite for no target."""

    queue_seconds: float
    run_seconds: float


@dataclass(slots=True)
class Series:
    """Totals of all runs with the same labels.

    Attributes:
        labels: ``class``, ``queue``, ``urgency`` and, if known, ``feature_category``, ``boundary`` and ``shard``; and
            labels of extensions.
        processed: runs with any outcome.
        failed: runs that raised.
        retried: runs of `failed` that will be retried.
        satisfied: runs that met the targets of their class; none of them is in `failed`.
        run_seconds: wall time of all runs.
        cpu_seconds: CPU time of their threads.
        run_buckets: runs by duration, up to `BOUNDS_SECONDS`; each run is in one bucket.
        queue_seconds: total queue latency, of the runs whose payload has the enqueue time.
        queue_buckets: the same runs by queue latency.
    """

    labels: Mapping[str, str]
    processed: int = 0
    failed: int = 0
    retried: int = 0
    run_seconds: float = 0.0
    cpu_seconds: float = 0.0
    run_buckets: list[int] = field(default_factory=_no_counts)
    queue_seconds: float = 0.0
    queue_buckets: list[int] = field(default_factory=_no_counts)
    satisfied: int = 0

    def add(self, other: Series) -> None:
        """Add the totals of another series."""
        for name in (*_COUNTS, *_SECONDS):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.run_buckets = [sum(pair) for pair in zip(self.run_buckets, other.run_buckets, strict=True)]
        self.queue_buckets = [sum(pair) for pair in zip(self.queue_buckets, other.queue_buckets, strict=True)]

    def cells(self) -> list[int]:
        """Return all totals as integers, in a fixed order; times in microseconds."""
        counts = [getattr(self, name) for name in _COUNTS]
        times = [round(getattr(self, name) * MICROSECONDS) for name in _SECONDS]
        return [*counts, *times, *self.run_buckets, *self.queue_buckets]

    @classmethod
    def of(cls, labels: Mapping[str, str], cells: Sequence[int]) -> Series:
        """The inverse of `cells`."""
        series = cls(labels)
        numbers = iter(cells)
        for name in _COUNTS:
            setattr(series, name, next(numbers))
        for name in _SECONDS:
            setattr(series, name, next(numbers) / MICROSECONDS)
        buckets = list(numbers)
        series.run_buckets, series.queue_buckets = buckets[:_BUCKETS], buckets[_BUCKETS:]
        return series


@dataclass(frozen=True, slots=True)
class Load:
    """Load of threads: total seconds in which they ran jobs, and in which they existed."""

    run_seconds: float = 0.0
    thread_seconds: float = 0.0

    def __add__(self, other: Load) -> Load:
        return Load(self.run_seconds + other.run_seconds, self.thread_seconds + other.thread_seconds)


class ReleaseRuns(NamedTuple):
    """Runs of one class with one release.

    Attributes:
        name: job class.
        release: release of the workers; empty if unknown.
        processed, failed: number of runs, and of those that raised.
        milliseconds, failed_milliseconds: duration of the runs that did not raise, and of those that did.
        histogram: number of runs in each of Sidekiq's 26 buckets, failed runs included; empty for totals.
    """

    name: str
    release: str
    processed: int
    failed: int
    milliseconds: int
    failed_milliseconds: int
    histogram: Sequence[int]

    @property
    def run_seconds(self) -> float:
        """Duration of all runs, failed ones included."""
        return (self.milliseconds + self.failed_milliseconds) / 1000

    def plus(self, other: ReleaseRuns) -> ReleaseRuns:
        """Return the sum of two counts of the same class and release."""
        return ReleaseRuns(
            self.name,
            self.release,
            self.processed + other.processed,
            self.failed + other.failed,
            self.milliseconds + other.milliseconds,
            self.failed_milliseconds + other.failed_milliseconds,
            [sum(pair) for pair in zip(self.histogram, other.histogram, strict=True)],
        )
