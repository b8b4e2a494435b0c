"""What is counted of each run until the heartbeat writes it: Sidekiq's execution metrics, and sums for monitoring.

It is done for every job, so it is done with as little as it takes: jobs that are acknowledged together are mostly of
one class and fall into one bucket, and are then counted as one. CPU time is measured for some of the short runs; the
others are taken to be like them.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from offsider.core.objectives import Target, satisfied_of
from offsider.core.payload import read_stamp
from offsider.core.series import BOUNDS_SECONDS, Series
from offsider.storage.execution_metrics import BUCKETS, JobCounts

if TYPE_CHECKING:
    from offsider.worker.outcome import Run
    from offsider.worker.unit_of_work import UnitOfWork

#: Upper bounds of Sidekiq's histogram in seconds.
SIDEKIQ_SECONDS = (
    0.02, 0.03, 0.045, 0.065, 0.1, 0.15, 0.225, 0.335, 0.5, 0.75, 1.1, 1.7, 2.5,
    3.8, 5.75, 8.5, 13.0, 20.0, 30.0, 45.0, 65.0, 100.0, 150.0, 225.0, 335.0,
)  # fmt: skip
#: All bounds of both histograms: one search finds the place of a run in either.
_BOUNDS = tuple(sorted({*SIDEKIQ_SECONDS, *BOUNDS_SECONDS}))
_PLACES = len(_BOUNDS) + 1
_TO_SIDEKIQ = [bisect_left(SIDEKIQ_SECONDS, bound) for bound in _BOUNDS] + [BUCKETS - 1]
_TO_SERIES = [bisect_left(BOUNDS_SECONDS, bound) for bound in _BOUNDS] + [len(BOUNDS_SECONDS)]

NOTHING_PROMISED = Target(math.inf, math.inf)

_Alike: TypeAlias = "tuple[list[Run], list[float]]"
Labels: TypeAlias = Callable[[str, str], Mapping[str, str]]


class Tally:
    """Counts of one class in one queue."""

    __slots__ = (
        "cpu_seconds",
        "failed_counts",
        "failed_seconds",
        "measured_seconds",
        "queue_counts",
        "queue_seconds",
        "retried",
        "run_counts",
        "run_seconds",
        "satisfied",
        "target",
    )

    def __init__(self, target: Target = NOTHING_PROMISED) -> None:
        self.target = target
        self.satisfied = 0
        self.run_counts = [0] * _PLACES
        self.run_seconds = 0.0
        self.failed_counts = [0] * _PLACES
        self.failed_seconds = 0.0
        self.retried = 0
        self.queue_counts = [0] * (len(BOUNDS_SECONDS) + 1)
        self.queue_seconds = 0.0
        #: Of the runs whose CPU time was measured: that, and how long they took.
        self.cpu_seconds = 0.0
        self.measured_seconds = 0.0

    def ran(self, runs: Sequence[Run], waits: Sequence[float]) -> None:
        """Count runs that did not raise.

        Args:
            waits: seconds in the queue, in the same order; empty when the payloads do not tell.
        """
        seconds = [run.duration_seconds for run in runs]
        self.run_seconds += sum(seconds)
        longest = _count(self.run_counts, _BOUNDS, seconds)
        self.measured(runs)
        latest = self.waited(waits)
        target = self.target
        if longest <= target.run_seconds and latest <= target.queue_seconds:
            self.satisfied += len(runs)
        else:
            self.satisfied += satisfied_of(seconds, waits or [0.0] * len(runs), target)

    def failed(self, run: Run, waits: Sequence[float], *, retried: bool) -> None:
        """Count a run that raised."""
        self.failed_seconds += run.duration_seconds
        _count(self.failed_counts, _BOUNDS, [run.duration_seconds])
        self.retried += retried
        self.measured([run])
        self.waited(waits)

    def measured(self, runs: Iterable[Run]) -> None:
        for run in runs:
            if run.cpu_seconds is not None:
                self.cpu_seconds += run.cpu_seconds
                self.measured_seconds += run.duration_seconds

    def waited(self, waits: Sequence[float]) -> float:
        """Count waits, and answer the longest."""
        if waits and min(waits) < 0:  # clocks of two machines may disagree
            waits = [max(0.0, seconds) for seconds in waits]
        self.queue_seconds += sum(waits)
        return _count(self.queue_counts, BOUNDS_SECONDS, waits)

    def add(self, other: Tally) -> None:
        """Add what could not be written."""
        for counts, further in (
            (self.run_counts, other.run_counts),
            (self.failed_counts, other.failed_counts),
            (self.queue_counts, other.queue_counts),
        ):
            counts[:] = [sum(pair) for pair in zip(counts, further, strict=True)]
        self.run_seconds += other.run_seconds
        self.failed_seconds += other.failed_seconds
        self.retried += other.retried
        self.satisfied += other.satisfied
        self.queue_seconds += other.queue_seconds
        self.cpu_seconds += other.cpu_seconds
        self.measured_seconds += other.measured_seconds


class Taken:
    """Counts that were taken out to be written."""

    def __init__(self, tallies: Mapping[tuple[str, str], Tally]) -> None:
        self.tallies = tallies

    @property
    def run_seconds(self) -> float:
        """What all runs took, failed ones included."""
        return sum(tally.run_seconds + tally.failed_seconds for tally in self.tallies.values())

    def by_class(self) -> list[JobCounts]:
        """As Sidekiq keeps them: whatever the queue, and with the time of successful runs alone."""
        of_class: dict[str, list[Tally]] = {}
        for (_, name), tally in self.tallies.items():
            of_class.setdefault(name, []).append(tally)
        return [_job_counts(name, tallies) for name, tallies in of_class.items()]

    def series(self, labels: Iterable[Labels] = ()) -> list[Series]:
        """As a monitoring system wants them.

        Args:
            labels: further ones, each asked with class and queue.
        """
        asked = tuple(labels)
        return [_series(queue, name, tally, asked) for (queue, name), tally in self.tallies.items()]


class Tallies:
    """The counts of one worker. Safe for threads.

    Args:
        target: what is promised of a class; asked once for each class and heartbeat.
    """

    def __init__(self, target: Callable[[str], Target] = lambda _: NOTHING_PROMISED) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._tallies: dict[tuple[str, str], Tally] = {}

    def finished(self, units: Iterable[UnitOfWork]) -> list[str]:
        """Count runs that did not raise, and answer the jids of those that had been tried before."""
        alike: dict[tuple[str, str], _Alike] = {}
        untold: list[tuple[tuple[str, str], Run]] = []
        tried_before: list[str] = []
        queue = name = ""
        runs: list[Run] = []
        waits: list[float] = []
        for unit in units:
            run = unit.run
            if run is None or run.job is None or run.job.declared is None:
                continue  # no class of ours: anybody could make up any number of them
            payload = run.job.payload
            if payload["class"] != name or unit.queue != queue:
                queue, name = unit.queue, payload["class"]
                runs, waits = alike.setdefault((queue, name), ([], []))
            at = payload.get("enqueued_at")
            if type(at) is int:  # milliseconds, as in all but old payloads
                waits.append(unit.started_at - at / 1000)
                runs.append(run)
            elif waited := _waited(unit, at):
                waits += waited
                runs.append(run)
            else:
                untold.append(((queue, name), run))
            if "retry_count" in payload:
                tried_before.append(run.job.jid)
        with self._lock:
            for kind, (same, waits_of_same) in alike.items():
                self._of(kind).ran(same, waits_of_same)
            for kind, run in untold:
                self._of(kind).ran([run], ())
        return [jid for jid in tried_before if jid]

    def failed(self, unit: UnitOfWork, run: Run, *, retried: bool) -> None:
        """Count a run that raised."""
        job = run.job
        if job is not None and job.declared is not None:
            waits = _waited(unit, job.payload.get("enqueued_at"))
            with self._lock:
                self._of((unit.queue, job.payload["class"])).failed(run, waits, retried=retried)

    def _of(self, kind: tuple[str, str]) -> Tally:
        tally = self._tallies.get(kind)
        if tally is None:
            tally = self._tallies[kind] = Tally(self._target(kind[1]))
        return tally

    def take(self) -> Taken:
        """Everything since the last time; `give_back` when it could not be written."""
        with self._lock:
            # A fresh mapping and not a cleared one: whoever took has the old one for himself.
            taken, self._tallies = self._tallies, {}
        return Taken(taken)

    def give_back(self, taken: Taken) -> None:
        with self._lock:
            for key, tally in taken.tallies.items():
                self._of(key).add(tally)


def _waited(unit: UnitOfWork, enqueued_at: object) -> list[float]:
    """How long a job lay in its queue; nothing when its payload does not tell."""
    at = read_stamp(enqueued_at)
    return [] if at is None else [unit.started_at - at]


def _count(counts: list[int], bounds: Sequence[float], values: Sequence[float]) -> float:
    """Count values in their buckets, mostly that is one bucket for all, and answer the highest."""
    if not values:
        return 0.0
    highest = max(values)
    place = bisect_left(bounds, highest)
    if bisect_left(bounds, min(values)) == place:
        counts[place] += len(values)
    else:
        for value in values:
            counts[bisect_left(bounds, value)] += 1
    return highest


def _job_counts(name: str, tallies: Sequence[Tally]) -> JobCounts:
    histogram = [0] * BUCKETS
    for tally in tallies:
        for place, count in enumerate(tally.run_counts):
            histogram[_TO_SIDEKIQ[place]] += count
    failed = sum(sum(tally.failed_counts) for tally in tallies)
    milliseconds = round(sum(tally.run_seconds for tally in tallies) * 1000)
    return JobCounts(name, sum(histogram) + failed, failed, milliseconds, histogram)


def _series(queue: str, name: str, tally: Tally, labels: Sequence[Labels]) -> Series:
    told: dict[str, str] = {}
    for further in labels:
        told |= further(name, queue)
    series = Series({**told, "class": name, "queue": queue})
    for place, (ran, failed) in enumerate(zip(tally.run_counts, tally.failed_counts, strict=True)):
        series.run_buckets[_TO_SERIES[place]] += ran + failed
    series.processed = sum(series.run_buckets)
    series.failed = sum(tally.failed_counts)
    series.retried = tally.retried
    series.satisfied = tally.satisfied
    series.run_seconds = tally.run_seconds + tally.failed_seconds
    if tally.measured_seconds:
        # A thread cannot compute for longer than it runs, whatever two clocks say of a few microseconds.
        series.cpu_seconds = min(1.0, tally.cpu_seconds / tally.measured_seconds) * series.run_seconds
    series.queue_seconds = tally.queue_seconds
    series.queue_buckets = list(tally.queue_counts)
    return series
