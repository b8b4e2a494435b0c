"""SLOs: apdex, failures and error budget of jobs by class, urgency, category and shard.

A run is satisfied if it succeeded, and started and ended within its targets. All other runs are bad. The objective
defines the share of bad runs that is acceptable: the error budget.

Only runs of offsider's workers are counted. Numbers lag by one heartbeat (10 s). The current ten minutes are
incomplete, so a window is up to ten minutes shorter than its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal, TypeAlias

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.series import Series, summed
from offsider.storage import run_counts

#: Available windows.
WINDOWS: Sequence[str] = tuple(run_counts.WINDOWS)
#: A class whose runs use more CPU time than this share should declare it.
CPU_BOUND = 0.33
#: Minimum total execution time of a class for a meaningful CPU share.
_ENOUGH_SECONDS = 10.0

Group: TypeAlias = Literal["urgency", "feature_category", "shard"]


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
        """Runs that did not raise and met their targets."""
        return max(0, self.total - self.failed - self.missed)

    @property
    def apdex(self) -> float | None:
        """The share of satisfied runs; None without runs."""
        return self.satisfied / self.total if self.total else None

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


@dataclass(frozen=True, slots=True)
class ClassLevel:
    """The scores of one job class.

    Attributes:
        name: job class.
        urgency, feature_category, boundary: as declared in its workers; empty if not declared.
        shard: shard of the workers that ran it; empty for workers without a shard.
        scores: score of its runs by window, including windows without runs.
    """

    name: str
    urgency: str
    feature_category: str
    boundary: str
    shard: str
    scores: Mapping[str, Score]


@dataclass(frozen=True, slots=True)
class ServiceLevels:
    """The scores of all runs on one server.

    Attributes:
        objective: target ratio of satisfied runs.
        classes: one entry per class, shard and declaration.
    """

    objective: float
    classes: Sequence[ClassLevel]

    @classmethod
    def read(cls, config: Config | Installation | None = None, *, class_name: str | None = None) -> ServiceLevels:
        """Read the current scores of every class or of one.

        Raises:
            RedisFailure: the server does not respond.
        """
        server = Installation.of(config)
        found = run_counts.scores(server.redis, server.config.clock.now(), class_name)
        classes = [_level(labels, stored) for labels, stored in found]
        classes.sort(key=attrgetter("name", "urgency", "feature_category", "boundary", "shard"))
        return cls(server.config.slo.apdex_objective, classes)

    @property
    def total(self) -> dict[str, Score]:
        """Score of all classes together, by window."""
        return _summed(self.classes)

    def by(self, group: Group) -> dict[str, dict[str, Score]]:
        """Return the score by urgency, category or shard, then by window."""
        members: dict[str, list[ClassLevel]] = {}
        for each in self.classes:
            members.setdefault(getattr(each, group), []).append(each)
        return {name: _summed(levels) for name, levels in members.items()}


def _level(labels: Mapping[str, str], stored: Mapping[str, Sequence[int]]) -> ClassLevel:
    name, urgency, category, boundary, shard = (
        labels.get(label, "") for label in ("class", "urgency", "feature_category", "boundary", "shard")
    )
    scores = {window: Score(*counts) for window, counts in stored.items()}
    return ClassLevel(name, urgency, category, boundary, shard, scores)


def _summed(levels: Iterable[ClassLevel]) -> dict[str, Score]:
    every = list(levels)
    return {window: sum((level.scores[window] for level in every), Score()) for window in WINDOWS}


def cpu_shares(series: Iterable[Series]) -> dict[str, float]:
    """Return the ratio of CPU time to execution time by class, for classes with enough execution time."""
    return {
        one.labels.get("class", ""): min(1.0, one.cpu_seconds / one.run_seconds)
        for one in summed(series, ["class"])
        if one.run_seconds >= _ENOUGH_SECONDS
    }


def cpu_bound(series: Sequence[Series]) -> dict[str, float]:
    """Return the same ratio for classes that mostly use the CPU and are not declared as ``cpu``."""
    declared = {one.labels.get("class", "") for one in series if one.labels.get("boundary") == "cpu"}
    return {name: share for name, share in cpu_shares(series).items() if share > CPU_BOUND and name not in declared}
