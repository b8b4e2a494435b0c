"""SLOs: targets, scores, error budgets and the number of processes that a shard needs. Pure arithmetic.

A run is satisfied if it succeeded, and started and ended within its targets. All other runs are bad. The objective
defines the share of bad runs that is acceptable: the error budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

#: Target range of thread utilization. Below it a shard has too many threads, above it too few.
ZONE = (0.23, 0.43)
#: The middle of the range, and the goal for a shard outside it.
AIM = 0.33
#: A class whose runs use more CPU time than this share should declare it.
CPU_BOUND = 0.33
#: One evaluation at most doubles the processes: queue latency shows that there are too few, but not how many.
_STEEPEST = 2.0
#: No process is removed while the next job has waited for more than this share of its target.
_EASY = 0.5


@dataclass(frozen=True, slots=True)
class Target:
    """The targets of a run in seconds: queue latency and duration; infinite for no target."""

    queue_seconds: float
    run_seconds: float


@dataclass(frozen=True, slots=True)
class Score:
    """Results of runs.

    Attributes:
        total: number of runs.
        failed: runs that raised.
        missed: runs that did not raise, but missed a target.
    """

    total: int = 0
    failed: int = 0
    missed: int = 0

    @property
    def satisfied(self) -> int:
        return max(0, self.total - self.failed - self.missed)

    @property
    def apdex(self) -> float | None:
        """The share of satisfied runs; None without runs."""
        return self.satisfied / self.total if self.total else None

    @property
    def error_rate(self) -> float | None:
        """The share of failed runs; None without runs."""
        return min(1.0, self.failed / self.total) if self.total else None

    def burn(self, objective: float) -> float | None:
        """The burn rate of the error budget; None without runs.

        At 1 the budget lasts exactly for its window, above 1 it does not.
        """
        return None if self.apdex is None else (1 - self.apdex) / (1 - objective)

    def budget_left(self, objective: float) -> float | None:
        """The remaining share of the error budget; negative if it is overdrawn."""
        spent = self.burn(objective)
        return None if spent is None else 1 - spent

    def __add__(self, other: Score) -> Score:
        return Score(self.total + other.total, self.failed + other.failed, self.missed + other.missed)


def summed(scores: Iterable[Score]) -> Score:
    """Return the sum of all scores."""
    return sum(scores, Score())


def satisfied_of(seconds: Iterable[float], waits: Iterable[float], target: Target) -> int:
    """Count the runs that met their target. ``seconds`` and ``waits`` are durations and latencies of the same runs."""
    return sum(
        took <= target.run_seconds and waited <= target.queue_seconds
        for took, waited in zip(seconds, waits, strict=True)
    )


def utilization(execution_seconds: float, thread_seconds: float) -> float | None:
    """The share of time in which threads ran jobs; None without threads."""
    return execution_seconds / thread_seconds if thread_seconds > 0 else None


def desired_processes(alive: int, *, waiting: bool, pressure: float, used: float, least: int, most: int) -> int:
    """Return the number of processes that a shard should have.

    1. If the next job of a queue waits beyond its target (`pressure` above 1): multiply by the pressure, at most by 2.
    2. If utilization is above its range, or below it without much waiting: the number that brings it to the middle.
    3. Otherwise the current number, but at least one if jobs wait.

    Args:
        alive: current number of processes.
        waiting: a job waits in one of its queues.
        pressure: latency of the next job as a share of its target, in the worst queue.
        used: recent utilization of the threads.
        least, most: limits of the result.
    """
    late = alive * min(pressure, _STEEPEST) if pressure > 1 else 0.0
    full = used > ZONE[1] or (used < ZONE[0] and pressure <= _EASY)
    wanted = math.ceil(max(late, alive * used / AIM if full else alive) - 1e-9)
    return max(least, min(max(wanted, int(waiting)), most))
