"""The account of a worker's runs, the only place where they are counted; `RunWriter` stores it.

1. Runs are counted by class, queue and the minute in which they ended, whenever the counts are written. The release is
   that of the process.
2. Runs of unregistered classes count under the empty name, because payloads could contain any number of names. They are
   in the totals and in no metric of a class, as in Sidekiq.
3. Counting happens for every job, so it must be cheap: jobs that are acknowledged together are mostly of one class and
   fall into one bucket, and are then counted as one. CPU time is measured for some of the short runs; the others are
   assumed to be like them.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from offsider.core.payload import read_stamp, shown_class
from offsider.core.series import BOUNDS_SECONDS, Series, Target
from offsider.core.wording import counted
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
#: The name under which runs of unregistered classes count.
UNREGISTERED = ""
#: Start of the minute in which the runs ended, queue and class.
_Kind: TypeAlias = tuple[float, str, str]
Labels: TypeAlias = Callable[[str, str], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Ended:
    """Number of ended jobs by result, since the start of the worker."""

    finished: int = 0
    requeued: int = 0
    failed: int = 0

    def plus(self, finished: int = 0, requeued: int = 0, failed: int = 0) -> Ended:
        return Ended(self.finished + finished, self.requeued + requeued, self.failed + failed)

    def since(self, before: Ended) -> str:
        """Return the difference as text: ``3 jobs finished, 1 requeued, 0 failed``."""
        finished = counted(self.finished - before.finished, "job")
        return f"{finished} finished, {self.requeued - before.requeued} requeued, {self.failed - before.failed} failed"


def _run_buckets() -> list[int]:
    return [0] * len(_TO_SERIES)


def _queue_buckets() -> list[int]:
    return [0] * (len(BOUNDS_SECONDS) + 1)


@dataclass(slots=True)
class RunCounter:
    """Runs of one class in one queue that ended in one minute.

    Attributes:
        target: SLO target of the class.
        processed, raised: number of runs, and of those that raised.
        shown_processed, shown_raised: the part of them that is in the totals of the server.
        ran, failed, waited: buckets of runs that did not raise, of runs that did, and of waits in the queue.
        ran_seconds, failed_seconds, waited_seconds: their sums.
        retried: failed runs that will be retried.
        satisfied: runs that met their target.
        cpu_seconds, measured_seconds: CPU time and duration of the runs whose CPU time was measured.
    """

    target: Target = NO_TARGET
    processed: int = 0
    raised: int = 0
    shown_processed: int = 0
    shown_raised: int = 0
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
        self.processed += len(runs)
        self.ran_seconds += sum(seconds)
        longest = _count(self.ran, _BOUNDS, seconds)
        self._measure(runs)
        latest = self._count_waits(waits)
        target = self.target
        if longest <= target.run_seconds and latest <= target.queue_seconds:
            self.satisfied += len(runs)
        else:
            self.satisfied += _satisfied(seconds, waits or [0.0] * len(runs), target)

    def count_failed(self, run: Run, waits: Sequence[float], *, retried: bool) -> None:
        """Count a run that raised."""
        self.processed += 1
        self.raised += 1
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

    def take_totals(self) -> tuple[int, int]:
        """Return the runs, and those that raised, that are not yet in the totals of the server."""
        taken = self.processed - self.shown_processed, self.raised - self.shown_raised
        self.shown_processed, self.shown_raised = self.processed, self.raised
        return taken

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
        series.processed, series.failed = self.processed, self.raised
        series.retried, series.satisfied = self.retried, self.satisfied
        series.run_seconds = self.ran_seconds + self.failed_seconds
        if self.measured_seconds:
            # CPU time cannot exceed the duration, but the two clocks may differ by a few microseconds.
            series.cpu_seconds = min(1.0, self.cpu_seconds / self.measured_seconds) * series.run_seconds
        series.queue_seconds, series.queue_buckets = self.waited_seconds, list(self.waited)
        return series


_SUMS = (
    "processed",
    "raised",
    "shown_processed",
    "shown_raised",
    "ran_seconds",
    "failed_seconds",
    "waited_seconds",
    "retried",
    "satisfied",
    "cpu_seconds",
    "measured_seconds",
)


class Taken:
    """Counts that were taken for a write.

    Attributes:
        totals: runs, and those that raised, that are not yet in the totals of the server.
        counters: the counts of classes; empty if only the totals were taken.
    """

    def __init__(self, totals: Mapping[_Kind, tuple[int, int]], counters: Mapping[_Kind, RunCounter]) -> None:
        self.totals = totals
        self.counters = counters

    @property
    def run_seconds(self) -> float:
        """Duration of all runs, failed ones included."""
        return sum(counter.ran_seconds + counter.failed_seconds for counter in self.counters.values())

    @property
    def is_empty(self) -> bool:
        return not self.counters and not any(map(any, self.totals.values()))

    def by_minute(self, now: float) -> list[tuple[float, Taken]]:
        """Return the counts of each minute, given by its start, the earliest first; the last is the minute of ``now``.

        A run cannot have ended later; clocks may have been set back.
        """
        current = _minute_of(now)
        totals: dict[float, dict[_Kind, tuple[int, int]]] = {current: {}}
        counters: dict[float, dict[_Kind, RunCounter]] = {}
        for kind, numbers in self.totals.items():
            totals.setdefault(min(kind[0], current), {})[kind] = numbers
        for kind, counter in self.counters.items():
            counters.setdefault(min(kind[0], current), {})[kind] = counter
        return [(minute, Taken(totals[minute], counters.get(minute, {}))) for minute in sorted(totals)]

    def summed_totals(self) -> tuple[int, int]:
        """Return the totals of all classes."""
        return sum(runs for runs, _ in self.totals.values()), sum(raised for _, raised in self.totals.values())

    def by_class(self) -> list[JobCounts]:
        """Return the counts of each registered class, over all queues."""
        of_class: dict[str, RunCounter] = {}
        for (_, _, name), counter in self._registered():
            of_class.setdefault(name, RunCounter()).add(counter)
        return [_job_counts(name, counter) for name, counter in of_class.items()]

    def series(self, labels: Iterable[Labels] = ()) -> list[Series]:
        """Return the counts for monitoring.

        Args:
            labels: return additional labels; each is called with class and queue.
        """
        further, found = tuple(labels), list[Series]()
        for (_, queue, name), counter in self._registered():
            every: dict[str, str] = {}
            for of in further:
                every |= of(name, queue)
            found.append(counter.series({**every, "class": name, "queue": queue}))
        return found

    def _registered(self) -> Iterable[tuple[_Kind, RunCounter]]:
        return ((kind, counter) for kind, counter in self.counters.items() if kind[2] != UNREGISTERED)


class RunAccount:
    """The runs of one worker. Thread-safe.

    Args:
        target: returns the target of a class; called once for each class and write.
    """

    def __init__(self, target: Callable[[str], Target] = lambda _: NO_TARGET) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._counters: dict[_Kind, RunCounter] = {}
        self._ended = Ended()

    @property
    def ended(self) -> Ended:
        """Results of all jobs since the start of the worker."""
        return self._ended

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
            if run is None or job is None:
                continue
            payload = job.payload
            if job.declared is None:
                shown = UNREGISTERED
            else:
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
            count = len(untimed)
            for kind, (same, waits_of_same) in alike.items():
                count += len(same)
                self._of(kind).count_finished(same, waits_of_same)
            for kind, run in untimed:
                self._of(kind).count_finished([run], ())
            self._ended = self._ended.plus(finished=count)
        return [jid for jid in tried_before if jid]

    def failed(self, unit: UnitOfWork, run: Run, *, retried: bool) -> None:
        """Count a run that raised."""
        job = run.job
        if job is None:
            return
        waits = _waited(run, job.payload.get("enqueued_at"))
        minute = _minute_of(run.started_at + run.duration_seconds)
        name = UNREGISTERED if job.declared is None else job.shown_name
        with self._lock:
            self._of((minute, unit.queue, name)).count_failed(run, waits, retried=retried)
            self._ended = self._ended.plus(failed=1)

    def requeued(self, jobs: int = 1) -> None:
        """Count jobs that were requeued because the worker is stopping; they are no runs."""
        with self._lock:
            self._ended = self._ended.plus(requeued=jobs)

    def _of(self, kind: _Kind) -> RunCounter:
        counter = self._counters.get(kind)
        if counter is None:
            counter = self._counters[kind] = RunCounter(self._target(kind[2]))
        return counter

    def take(self, *, classes: bool = True) -> Taken:
        """Return the counts that are not written yet; `restore` them if they could not be written.

        Args:
            classes: include the counts of classes; otherwise the next call takes them.
        """
        with self._lock:
            totals = {kind: counter.take_totals() for kind, counter in self._counters.items()}
            if not classes:
                return Taken(totals, {})
            # A new mapping, because the taken counts keep the old one.
            taken, self._counters = self._counters, {}
        return Taken(totals, taken)

    def restore(self, taken: Taken) -> None:
        """Add counts that could not be written to the current ones."""
        with self._lock:
            for kind, counter in taken.counters.items():
                self._of(kind).add(counter)
            for kind, (processed, raised) in taken.totals.items():
                counter = self._of(kind)
                counter.shown_processed -= processed
                counter.shown_raised -= raised


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
    return JobCounts(
        name,
        counter.processed,
        counter.raised,
        round(counter.ran_seconds * 1000),
        _sidekiq_buckets(counter.ran),
        round(counter.failed_seconds * 1000),
        _sidekiq_buckets(counter.failed),
    )


def _sidekiq_buckets(counts: Sequence[int]) -> list[int]:
    histogram = [0] * BUCKETS
    for bucket, count in zip(_TO_SIDEKIQ, counts, strict=True):
        histogram[bucket] += count
    return histogram


def _satisfied(seconds: Iterable[float], waits: Iterable[float], target: Target) -> int:
    """Count the runs that met their target. ``seconds`` and ``waits`` are durations and latencies of the same runs."""
    return sum(
        took <= target.run_seconds and waited <= target.queue_seconds
        for took, waited in zip(seconds, waits, strict=True)
    )
