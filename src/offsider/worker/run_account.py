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
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from offsider.core.payload import read_stamp, shown_class
from offsider.core.series import BOUNDS_SECONDS, DURATION_SECONDS, Series, Target
from offsider.core.wording import counted
from offsider.runtime.propagation import CORRELATION, origin_of
from offsider.worker.run_recorder import RunRecorder

if TYPE_CHECKING:
    from offsider.storage.finished_runs import Runs
    from offsider.worker.unit_of_work import Run, UnitOfWork

NO_TARGET = Target(math.inf, math.inf)

MINUTE_SECONDS = 60.0
#: The name under which runs of unregistered classes count.
UNREGISTERED = ""
#: Start of the minute in which the runs ended, queue and class.
_Kind: TypeAlias = tuple[float, str, str]
#: Start of the minute in which the runs ended, class, caller and tenant; without class and the rest: of all others.
_SourceKind: TypeAlias = tuple[float, str, str, str]
#: Sources that are counted separately between two writes, and those that are written: the most frequent ones.
MAX_SOURCES, MAX_WRITTEN_SOURCES = 1_000, 50
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


class RunCounter:
    """Counts the runs of one class in one queue that ended in one minute.

    Args:
        target: SLO target of the class.
    """

    def __init__(self, counts: Series, target: Target) -> None:
        self.counts = counts
        self._target = target

    def count_finished(self, runs: Sequence[Run], waits: Sequence[float]) -> list[float]:
        """Count runs that did not raise, and return their durations.

        Args:
            waits: seconds in the queue, in the same order; empty if the payloads have no timestamp.
        """
        counts, target = self.counts, self._target
        seconds = [run.duration_seconds for run in runs]
        counts.processed += len(runs)
        counts.run_seconds += sum(seconds)
        longest = _count(counts.run_buckets, DURATION_SECONDS, seconds)
        self._measure(runs)
        latest = self._count_waits(waits)
        if longest <= target.run_seconds and latest <= target.queue_seconds:
            counts.satisfied += len(runs)
        else:
            counts.satisfied += _satisfied(seconds, waits or [0.0] * len(runs), target)
        return seconds

    def count_failed(self, run: Run, waits: Sequence[float], *, retried: bool) -> None:
        """Count a run that raised."""
        counts, seconds = self.counts, run.duration_seconds
        counts.processed += 1
        counts.failed += 1
        counts.retried += retried
        counts.run_seconds += seconds
        counts.failed_seconds += seconds
        for buckets in (counts.run_buckets, counts.failed_buckets):
            _count(buckets, DURATION_SECONDS, [seconds])
        self._measure([run])
        self._count_waits(waits)

    def _measure(self, runs: Iterable[Run]) -> None:
        for run in runs:
            if run.cpu_seconds is not None:
                self.counts.cpu_seconds += run.cpu_seconds
                self.counts.measured_seconds += run.duration_seconds

    def _count_waits(self, waits: Sequence[float]) -> float:
        if waits and min(waits) < 0:  # the clocks of two machines may disagree
            waits = [max(0.0, seconds) for seconds in waits]
        self.counts.queue_seconds += sum(waits)
        return _count(self.counts.queue_buckets, BOUNDS_SECONDS, waits)

    def take(self) -> Series:
        """Return the counts, with the CPU time of all runs."""
        counts = self.counts
        if counts.measured_seconds:
            # CPU time cannot exceed the duration, but the two clocks may differ by a few microseconds.
            counts.cpu_seconds = min(1.0, counts.cpu_seconds / counts.measured_seconds) * counts.run_seconds
            counts.measured_seconds = counts.run_seconds
        return counts


@dataclass(frozen=True)
class Taken:
    """Counts that were taken for a write.

    Attributes:
        processed, failed: runs, and those that raised, that are not yet in the totals of the server, by minute.
        claimed: claims by queue that the server does not have yet.
        counts: the counts of classes; empty if only the totals were taken.
        sources: runs whose payload has a context, by source; empty if only the totals were taken.
        recorded: runs for the flight recorder, by class and outcome; `restore` drops them.
    """

    processed: Counter[float] = field(default_factory=Counter[float])
    failed: Counter[float] = field(default_factory=Counter[float])
    claimed: Counter[str] = field(default_factory=Counter[str])
    counts: dict[_Kind, Series] = field(default_factory=dict["_Kind", Series])
    sources: Counter[_SourceKind] = field(default_factory=Counter["_SourceKind"])
    recorded: Mapping[tuple[str, str], Runs] = field(default_factory=dict[tuple[str, str], "Runs"])

    @property
    def run_seconds(self) -> float:
        """Duration of all runs, failed ones included."""
        return sum(counts.run_seconds for counts in self.counts.values())

    @property
    def totals(self) -> tuple[int, int]:
        """The runs of all classes, and those that raised."""
        return self.processed.total(), self.failed.total()

    def by_minute(self, now: float) -> list[tuple[float, Taken]]:
        """Return the counts of each minute, given by its start, the earliest first; the last is the minute of ``now``.

        A run cannot have ended later; clocks may have been set back.
        """
        current = _minute_of(now)
        minutes = {
            min(minute, current): Taken() for minute in (*self.processed, *(kind[0] for kind in self.counts), current)
        }
        for minute, runs in self.processed.items():
            minutes[min(minute, current)].processed[minute] = runs
            minutes[min(minute, current)].failed[minute] = self.failed[minute]
        for kind, counts in self.counts.items():
            minutes[min(kind[0], current)].counts[kind] = counts
        for source, runs in self.sources.items():
            minutes[min(source[0], current)].sources[source] = runs
        minutes[current].claimed.update(self.claimed)
        return sorted(minutes.items())

    def by_source(self) -> Counter[tuple[str, str, str]]:
        """Return the runs of the most frequent sources: class, caller, tenant; three empty texts are all others."""
        found = Counter[tuple[str, str, str]]()
        for place, ((_, *source), runs) in enumerate(self.sources.most_common()):
            name, caller, tenant = source
            found[(name, caller, tenant) if name and place < MAX_WRITTEN_SOURCES else ("", "", "")] += runs
        return found

    def series(self, labels: Iterable[Labels] = ()) -> list[Series]:
        """Return the counts of each registered class and queue.

        Args:
            labels: return additional labels; each is called with class and queue.
        """
        further, found = tuple(labels), list[Series]()
        for (_, queue, name), counts in self.counts.items():
            if name != UNREGISTERED:
                every: dict[str, str] = {}
                for of in further:
                    every |= of(name, queue)
                found.append(replace(counts, labels={**every, **counts.labels}))
        return found


class RunAccount:
    """The runs of one worker. Thread-safe.

    Args:
        target: returns the target of a class; called once for each class and write.
        recorded_per_second: maximum number of runs that the flight recorder gets between two writes.
    """

    def __init__(self, target: Callable[[str], Target] = lambda _: NO_TARGET, *, recorded_per_second: int = 0) -> None:
        self._target = target
        self._recorder = RunRecorder(recorded_per_second)
        self._lock = threading.Lock()
        self._counters: dict[_Kind, RunCounter] = {}
        self._processed, self._failed = Counter[float](), Counter[float]()
        self._claimed, self._sources = Counter[str](), Counter[_SourceKind]()
        self._ended = Ended()

    @property
    def ended(self) -> Ended:
        """Results of all jobs since the start of the worker."""
        return self._ended

    def claimed(self, units: Sequence[UnitOfWork]) -> None:
        """Count jobs that were taken from their queues."""
        queues = [unit.queue for unit in units]
        with self._lock:
            for queue in {*queues}:
                self._claimed[queue] += queues.count(queue)

    def finished(self, units: Iterable[UnitOfWork]) -> list[str]:
        """Count runs that did not raise, and return the jids of retried jobs."""
        alike: dict[tuple[_Kind, str], tuple[list[Run], list[float]]] = {}
        untimed: list[tuple[_Kind, Run]] = []
        tried_before: list[str] = []
        sources: list[_SourceKind] = []
        queue = name = outcome = ""
        minute = math.inf
        runs: list[Run] = []
        waits: list[float] = []
        for unit in units:
            run = unit.run
            job = None if run is None else run.job
            if run is None or job is None:
                continue
            payload = job.payload
            known = shown_class(payload) if "wrapped" in payload else payload["class"]
            shown = UNREGISTERED if job.declared is None else known
            ended = run.started_at + run.duration_seconds
            if (
                shown != name
                or run.outcome.name != outcome
                or unit.queue != queue
                or not 0 <= ended - minute < MINUTE_SECONDS
            ):
                minute, queue, name, outcome = _minute_of(ended), unit.queue, shown, run.outcome.name
                runs, waits = alike.setdefault(((minute, queue, name), outcome), ([], []))
            at = payload.get("enqueued_at")
            if type(at) is int:  # milliseconds; only old payloads have float seconds
                waits.append(run.started_at - at / 1000)
                runs.append(run)
            elif waited := _waited(run, at):
                waits += waited
                runs.append(run)
            else:
                untimed.append(((minute, queue, name), run))
            if CORRELATION in payload:  # no push stores `meta.*` without it
                sources.append((minute, shown, *origin_of(payload)[:2]))
            if "retry_count" in payload:
                tried_before.append(job.jid)
        with self._lock:
            count = len(untimed)
            for (kind, ended_as), (same, waits_of_same) in alike.items():
                count += len(same)
                self._processed[kind[0]] += len(same)
                seconds = self._of(kind).count_finished(same, waits_of_same)
                self._recorder.add(kind[2], ended_as, same, seconds)
            for kind, run in untimed:
                self._processed[kind[0]] += 1
                seconds = self._of(kind).count_finished([run], ())
                self._recorder.add(kind[2], run.outcome.name, [run], seconds)
            self._ended = self._ended.plus(finished=count)
            self._count_sources(sources)
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
            self._processed[minute] += 1
            self._failed[minute] += 1
            self._of((minute, unit.queue, name)).count_failed(run, waits, retried=retried)
            self._ended = self._ended.plus(failed=1)
            self._recorder.add(name, "failed" if retried else "died", [run], [run.duration_seconds])
            if CORRELATION in job.payload:
                self._count_sources([(minute, name, *origin_of(job.payload)[:2])])

    def requeued(self, jobs: int = 1) -> None:
        """Count jobs that were requeued because the worker is stopping; they are no runs."""
        with self._lock:
            self._ended = self._ended.plus(requeued=jobs)

    def _count_sources(self, sources: Sequence[_SourceKind]) -> None:
        if len(self._sources) + len(sources) > MAX_SOURCES:
            sources = [one if one in self._sources else (one[0], "", "", "") for one in sources]
        self._sources.update(sources)

    def _of(self, kind: _Kind) -> RunCounter:
        counter = self._counters.get(kind)
        if counter is None:
            _, queue, name = kind
            counter = RunCounter(Series({"class": name, "queue": queue}), self._target(name))
            self._counters[kind] = counter
        return counter

    def take(self, *, classes: bool = True) -> Taken:
        """Return the counts that are not written yet; `restore` them if they could not be written.

        Args:
            classes: include the counts of classes; otherwise the next call takes them.
        """
        with self._lock:
            processed, self._processed = self._processed, Counter[float]()
            failed, self._failed = self._failed, Counter[float]()
            claimed, self._claimed = self._claimed, Counter[str]()
            recorded = self._recorder.take()
            if not classes:
                return Taken(processed, failed, claimed, recorded=recorded)
            counters, self._counters = self._counters, {}
            sources, self._sources = self._sources, Counter[_SourceKind]()
        counts = {kind: counter.take() for kind, counter in counters.items()}
        return Taken(processed, failed, claimed, counts, sources, recorded)

    def restore(self, taken: Taken) -> None:
        """Add counts that could not be written to the current ones."""
        with self._lock:
            self._processed.update(taken.processed)
            self._failed.update(taken.failed)
            self._claimed.update(taken.claimed)
            self._sources.update(taken.sources)
            for kind, counts in taken.counts.items():
                self._of(kind).counts.add(counts)


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


def _satisfied(seconds: Iterable[float], waits: Iterable[float], target: Target) -> int:
    """Count the runs that met their target. ``seconds`` and ``waits`` are durations and latencies of the same runs."""
    return sum(
        took <= target.run_seconds and waited <= target.queue_seconds
        for took, waited in zip(seconds, waits, strict=True)
    )
