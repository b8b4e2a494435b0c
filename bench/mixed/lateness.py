"""Computes how long jobs waited although a thread was free."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from bench.compare.ledger import Run


class FreeTime:
    """The times in which fewer jobs ran than there are threads.

    Args:
        runs: every job of all processes.
        threads: total number of threads of all processes.
    """

    def __init__(self, runs: Sequence[Run], threads: int) -> None:
        events = sorted([(run.start, 1) for run in runs if run.start] + [(run.end, -1) for run in runs if run.end])
        running = list(accumulate(change for _, change in events))
        self._times = [0, *(at for at, _ in events)]
        self._free = [True, *(count < threads for count in running)]
        spans = zip(self._times, self._times[1:], self._free, strict=False)
        self._before = [0, *accumulate(end - start if free else 0 for start, end, free in spans)]

    def until(self, at_ns: int) -> int:
        """Return the nanoseconds with a free thread before ``at_ns``."""
        last = bisect_right(self._times, at_ns) - 1
        return self._before[last] + (at_ns - self._times[last] if self._free[last] else 0)


def late_ms(runs: Sequence[Run], threads: int) -> list[float]:
    """Return the delay of each job in push order: the time with a free thread from its turn until its start.

    The turn of a job begins once it is pushed and every job before it has started.
    """
    free = FreeTime(runs, threads)
    started_before = accumulate((run.start for run in runs), max, initial=0)
    turns = [max(run.pushed, before) for run, before in zip(runs, started_before, strict=False)]
    return [max(0, free.until(run.start) - free.until(turn)) / 1e6 for run, turn in zip(runs, turns, strict=True)]
