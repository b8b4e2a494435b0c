"""What was promised of jobs, how well it is kept, and how many processes it takes to keep it: arithmetic alone.

A run is satisfied when it succeeded, began within its target and ended within its target. The others are bad ones,
and the objective says how many of them are no reason to act: that is the error budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

#: A shard whose threads are busy for less of their time has too many of them; for more, too few.
ZONE = (0.23, 0.43)
#: The middle of the zone, at which a shard is aimed that has left it.
AIM = 0.33
#: A class whose runs compute for more of their time wants a declaration that says so.
CPU_BOUND = 0.33
#: One look at most doubles the processes: how long jobs wait says that there are too few, and not by how much.
_STEEPEST = 2.0
#: Nobody is sent away while the next job has waited for more than this share of its target.
_EASY = 0.5


@dataclass(frozen=True, slots=True)
class Target:
    """What is promised of a run: how soon it begins and how long it takes, in seconds; infinite when nothing is."""

    queue_seconds: float
    run_seconds: float


@dataclass(frozen=True, slots=True)
class Score:
    """How a number of runs went.

    Attributes:
        total: runs.
        failed: those that raised.
        missed: those that did not, and began or ended too late.
    """

    total: int = 0
    failed: int = 0
    missed: int = 0

    @property
    def satisfied(self) -> int:
        return max(0, self.total - self.failed - self.missed)

    @property
    def apdex(self) -> float | None:
        """The share of satisfied runs; None without any run."""
        return self.satisfied / self.total if self.total else None

    @property
    def error_rate(self) -> float | None:
        """The share of failed runs; None without any run."""
        return min(1.0, self.failed / self.total) if self.total else None

    def burn(self, objective: float) -> float | None:
        """How many times as fast as allowed the budget is spent; None without any run.

        At 1 it lasts exactly for its window, above 1 it does not.
        """
        return None if self.apdex is None else (1 - self.apdex) / (1 - objective)

    def budget_left(self, objective: float) -> float | None:
        """What is left of the bad runs that the objective allows, as a share of them; below 0 it is overdrawn."""
        spent = self.burn(objective)
        return None if spent is None else 1 - spent

    def __add__(self, other: Score) -> Score:
        return Score(self.total + other.total, self.failed + other.failed, self.missed + other.missed)


def summed(scores: Iterable[Score]) -> Score:
    """All of them as one."""
    return sum(scores, Score())


def satisfied_of(seconds: Iterable[float], waits: Iterable[float], target: Target) -> int:
    """How many runs kept their target: each has taken the seconds, after the wait, at its place."""
    return sum(
        took <= target.run_seconds and waited <= target.queue_seconds
        for took, waited in zip(seconds, waits, strict=True)
    )


def utilisation(execution_seconds: float, thread_seconds: float) -> float | None:
    """The share of their time that threads ran jobs; None when there were no threads."""
    return execution_seconds / thread_seconds if thread_seconds > 0 else None


def desired_processes(alive: int, *, waiting: bool, pressure: float, used: float, least: int, most: int) -> int:
    """How many processes a shard should have.

    1. The next job of a queue waits beyond its target (`pressure` above 1): so many times more, at most twice as many.
    2. The threads are used above their zone, or below it while nobody waits for long: as many as bring them to its
       middle.
    3. Else as many as there are. One at least when jobs wait, however long they may.

    Args:
        alive: processes now.
        waiting: a job waits in one of its queues.
        pressure: how long the next job of its queues has waited, as a share of the target; of the worst queue.
        used: share of their time that the threads ran jobs, lately.
        least, most: the answer is never out of these.
    """
    late = alive * min(pressure, _STEEPEST) if pressure > 1 else 0.0
    full = used > ZONE[1] or (used < ZONE[0] and pressure <= _EASY)
    wanted = math.ceil(max(late, alive * used / AIM if full else alive) - 1e-9)
    return max(least, min(max(wanted, int(waiting)), most))
