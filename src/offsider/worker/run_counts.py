"""Counts the runs of a worker until the heartbeat writes them: for Sidekiq's metrics and for monitoring.

A run counts in the minute in which it ended, whenever the counts are written.

This happens for every job, so it must be cheap: jobs that are acknowledged together are mostly of one class and fall
into one bucket, and are then counted as one. CPU time is measured for some of the short runs; the others are assumed
to be like them.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from offsider.core.payload import read_stamp, shown_class
from offsider.core.series import BOUNDS_SECONDS, Series
from offsider.core.slo import Target, satisfied_of
from offsider.storage.execution_metrics import BUCKETS, JobCounts

if TYPE_CHECKING:
    from offsider.worker.unit_of_work import Run, UnitOfWork

#: Upper bounds of Sidekiq's histogram in seconds.
SIDEKIQ_SECONDS = (
    0.02, 0.03, 0.045, 0.065, 0.1, 0.15, 0.225, 0.335, 0.5, 0.75, 1.1, 1.7, 2.5,
    3.8, 5.75, 8.5, 13.0, 20.0, 30.0, 45.0, 65.0, 100.0, 150.0, 225.0, 335.0,
)  # fmt: skip
#: All bounds of both histograms: one search finds the bucket of a run in either.
_BOUNDS = tuple(sorted({*SIDEKIQ_SECONDS, *BOUNDS_SECONDS}))
_TO_SIDEKIQ = [bisect_left(SIDEKIQ_SECONDS, bound) for bound in _BOUNDS] + [BUCKETS - 1]
_TO_SERIES = [bisect_left(BOUNDS_SECONDS, bound) for bound in _BOUNDS] + [len(BOUNDS_SECONDS)]

NO_TARGET = Target(math.inf, math.inf)

MINUTE_SECONDS = 60.0
#: Start of the minute in which the runs ended, queue and class.
_Kind: TypeAlias = tuple[float, str, str]
Labels: TypeAlias = Callable[[str, str], Mapping[str, str]]


def _run_buckets() -> list[int]:
    return [0] * len(_TO_SERIES)


def _queue_buckets() -> list[int]:
    return [0] * (len(BOUNDS_SECONDS) + 1)


@dataclass(slots=True)
class RunCounter:
    """Counts of one class in one queue.

    Attributes:
        target: SLO target of the class.
        ran, failed, waited: buckets of runs that did not raise, of runs that did, and of waits in the queue.
        ran_seconds, failed_seconds, waited_seconds: their sums.
        retried: failed runs that will be retried.
        satisfied: runs that met their target.
        cpu_seconds, measured_seconds: CPU time and duration of the runs whose CPU time was measured.
    """

    target: Target = NO_TARGET
    ran: list[int] = field(default_factory=_run_buckets)
    failed: list[int] = field(default_factory=_run_buckets)
    waited: list[int] = field(default_factory=_queue_buckets)
    ran_seconds: float = 0.0
    failed_seconds: float = 0.0
    waited_seconds: float = 0.0
    retried: int = 0
    satisfied: int = 0
    cpu_seconds: float = 0.0
    measured_seconds: float = 0.0

    def count_finished(self, runs: Sequence[Run], waits: Sequence[float]) -> None:
        """Count runs that did not raise.

        Args:
            waits: seconds in the queue, in the same order; empty if the payloads have no timestamp.
        """
        seconds = [run.duration_seconds for run in runs]
        self.ran_seconds += sum(seconds)
        longest = _count(self.ran, _BOUNDS, seconds)
        self._measure(runs)
        latest = self._count_waits(waits)
        target = self.target
        if longest <= target.run_seconds and latest <= target.queue_seconds:
            self.satisfied += len(runs)
        else:
            self.satisfied += satisfied_of(seconds, waits or [0.0] * len(runs), target)

    def count_failed(self, run: Run, waits: Sequence[float], *, retried: bool) -> None:
        """Count a run that raised."""
        self.failed_seconds += run.duration_seconds
        _count(self.failed, _BOUNDS, [run.duration_seconds])
        self.retried += retried
        self._measure([run])
        self._count_waits(waits)

    def _measure(self, runs: Iterable[Run]) -> None:
        for run in runs:
            if run.cpu_seconds is not None:
                self.cpu_seconds += run.cpu_seconds
                self.measured_seconds += run.duration_seconds

    def _count_waits(self, waits: Sequence[float]) -> float:
        if waits and min(waits) < 0:  # the clocks of two machines may disagree
            waits = [max(0.0, seconds) for seconds in waits]
        self.waited_seconds += sum(waits)
        return _count(self.waited, BOUNDS_SECONDS, waits)

    def add(self, other: RunCounter) -> None:
        """Add counts that could not be written."""
        for name in ("ran", "failed", "waited"):
            setattr(self, name, [sum(pair) for pair in zip(getattr(self, name), getattr(other, name), strict=True)])
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def series(self, labels: Mapping[str, str]) -> Series:
        """Return the counts for monitoring."""
        series = Series(labels)
        for bucket, ran, failed in zip(_TO_SERIES, self.ran, self.failed, strict=True):
            series.run_buckets[bucket] += ran + failed
        series.processed, series.failed = sum(series.run_buckets), sum(self.failed)
        series.retried, series.satisfied = self.retried, self.satisfied
        series.run_seconds = self.ran_seconds + self.failed_seconds
        if self.measured_seconds:
            # CPU time cannot exceed the duration, but the two clocks may differ by a few microseconds.
            series.cpu_seconds = min(1.0, self.cpu_seconds / self.measured_seconds) * series.run_seconds
        series.queue_seconds, series.queue_buckets = self.waited_seconds, list(self.waited)
        return series


_SUMS = (
    "ran_seconds",
    "failed_seconds",
    "waited_seconds",
    "retried",
    "satisfied",
    "cpu_seconds",
    "measured_seconds",
)


class Snapshot:
    """Counts that were removed from `RunCounts` for a write."""

    def __init__(self, counters: Mapping[_Kind, RunCounter]) -> None:
        self.counters = counters

    @property
    def run_seconds(self) -> float:
        """Duration of all runs, failed ones included."""
        return sum(counter.ran_seconds + counter.failed_seconds for counter in self.counters.values())

    def by_minute(self, now: float) -> list[tuple[float, Snapshot]]:
        """Return the counts of each minute, given by its start, the earliest first; the last is the minute of ``now``.

        A run cannot have ended later; clocks may have been set back.
        """
        current = _minute_of(now)
        found: dict[float, dict[_Kind, RunCounter]] = {current: {}}
        for kind, counter in self.counters.items():
            found.setdefault(min(kind[0], current), {})[kind] = counter
        return [(minute, Snapshot(found[minute])) for minute in sorted(found)]

    def by_class(self) -> list[JobCounts]:
        """Return the counts for Sidekiq's metrics: over all queues, with time and buckets of successful runs only."""
        of_class: dict[str, RunCounter] = {}
        for (_, _, name), counter in self.counters.items():
            of_class.setdefault(name, RunCounter()).add(counter)
        return [_job_counts(name, counter) for name, counter in of_class.items()]

    def series(self, labels: Iterable[Labels] = ()) -> list[Series]:
        """Return the counts for monitoring.

        Args:
            labels: return additional labels; each is called with class and queue.
        """
        further, found = tuple(labels), list[Series]()
        for (_, queue, name), counter in self.counters.items():
            every: dict[str, str] = {}
            for of in further:
                every |= of(name, queue)
            found.append(counter.series({**every, "class": name, "queue": queue}))
        return found


class RunCounts:
    """The counts of one worker. Thread-safe.

    Args:
        target: returns the target of a class; called once for each class and heartbeat.
    """

    def __init__(self, target: Callable[[str], Target] = lambda _: NO_TARGET) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._counters: dict[_Kind, RunCounter] = {}

    def finished(self, units: Iterable[UnitOfWork]) -> list[str]:
        """Count runs that did not raise, and return the jids of retried jobs."""
        alike: dict[_Kind, tuple[list[Run], list[float]]] = {}
        untimed: list[tuple[_Kind, Run]] = []
        tried_before: list[str] = []
        queue = name = ""
        minute = math.inf
        runs: list[Run] = []
        waits: list[float] = []
        for unit in units:
            run = unit.run
            job = None if run is None else run.job
            if run is None or job is None or job.declared is None:
                continue  # an unregistered class: payloads could contain any number of them
            payload = job.payload
            shown = shown_class(payload) if "wrapped" in payload else payload["class"]
            ended = run.started_at + run.duration_seconds
            if shown != name or unit.queue != queue or not 0 <= ended - minute < MINUTE_SECONDS:
                minute, queue, name = _minute_of(ended), unit.queue, shown
                runs, waits = alike.setdefault((minute, queue, name), ([], []))
            at = payload.get("enqueued_at")
            if type(at) is int:  # milliseconds; only old payloads have float seconds
                waits.append(run.started_at - at / 1000)
                runs.append(run)
            elif waited := _waited(run, at):
                waits += waited
                runs.append(run)
            else:
                untimed.append(((minute, queue, name), run))
            if "retry_count" in payload:
                tried_before.append(job.jid)
        with self._lock:
            for kind, (same, waits_of_same) in alike.items():
                self._of(kind).count_finished(same, waits_of_same)
            for kind, run in untimed:
                self._of(kind).count_finished([run], ())
        return [jid for jid in tried_before if jid]

    def failed(self, unit: UnitOfWork, run: Run, *, retried: bool) -> None:
        """Count a run that raised."""
        job = run.job
        if job is not None and job.declared is not None:
            waits = _waited(run, job.payload.get("enqueued_at"))
            minute = _minute_of(run.started_at + run.duration_seconds)
            with self._lock:
                self._of((minute, unit.queue, job.shown_name)).count_failed(run, waits, retried=retried)

    def _of(self, kind: _Kind) -> RunCounter:
        counter = self._counters.get(kind)
        if counter is None:
            counter = self._counters[kind] = RunCounter(self._target(kind[2]))
        return counter

    def take(self) -> Snapshot:
        """Return the counts since the last call; `restore` them if they could not be written."""
        with self._lock:
            # A new mapping, because the snapshot keeps the old one.
            taken, self._counters = self._counters, {}
        return Snapshot(taken)

    def restore(self, taken: Snapshot) -> None:
        """Add counts that could not be written to the current ones."""
        with self._lock:
            for kind, counter in taken.counters.items():
                self._of(kind).add(counter)


def _minute_of(at: float) -> float:
    return at // MINUTE_SECONDS * MINUTE_SECONDS


def _waited(run: Run, enqueued_at: object) -> list[float]:
    """Return the seconds in the queue; empty if the payload has no timestamp."""
    at = read_stamp(enqueued_at)
    return [] if at is None else [run.started_at - at]


def _count(counts: list[int], bounds: Sequence[float], values: Sequence[float]) -> float:
    """Count values in their buckets (usually all in one bucket), and return the highest value."""
    if not values:
        return 0.0
    highest = max(values)
    bucket = bisect_left(bounds, highest)
    if bisect_left(bounds, min(values)) == bucket:
        counts[bucket] += len(values)
    else:
        for value in values:
            counts[bisect_left(bounds, value)] += 1
    return highest


def _job_counts(name: str, counter: RunCounter) -> JobCounts:
    histogram = [0] * BUCKETS
    for bucket, count in zip(_TO_SIDEKIQ, counter.ran, strict=True):
        histogram[bucket] += count
    failed = sum(counter.failed)
    return JobCounts(name, sum(histogram) + failed, failed, round(counter.ran_seconds * 1000), histogram)
