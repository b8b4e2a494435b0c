"""Collects the finished runs of this process for the flight recorder (`storage.finished_runs`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from offsider.storage.finished_runs import Runs

if TYPE_CHECKING:
    from offsider.worker.unit_of_work import Run


class RunRecorder:
    """The finished runs since the last write; the caller holds a lock.

    Args:
        limit: maximum number of runs between two writes, which are a second apart. Further runs are not recorded.
    """

    def __init__(self, limit: int) -> None:
        self._limit = self._room = limit
        self._runs: dict[tuple[str, str], Runs] = {}

    def add(self, name: str, outcome: str, runs: Sequence[Run], seconds: Sequence[float]) -> None:
        """Record runs of a class that have one outcome, with their durations."""
        if len(runs) > self._room:
            runs, seconds = runs[: self._room], seconds[: self._room]
        if not runs:
            return
        self._room -= len(runs)
        kind = (name, outcome)
        found = self._runs.get(kind) or self._runs.setdefault(kind, Runs())
        found.jids += [run.job.payload.get("jid", "") for run in runs if run.job is not None]
        found.starts += [run.started_at for run in runs]
        found.seconds += seconds

    def take(self) -> dict[tuple[str, str], Runs]:
        """Return the runs by class and outcome."""
        runs, self._runs, self._room = self._runs, {}, self._limit
        return runs
