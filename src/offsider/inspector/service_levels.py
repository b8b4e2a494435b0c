"""Whether jobs keep what was promised of them: apdex, failures and error budget by class, urgency, category and shard.

Only runs of workers of offsider are counted. Figures lag by a heartbeat (10 s); the youngest ten minutes, or hour of
three days, have not ended, so that a window is up to so much shorter than its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from offsider.core.objectives import CPU_BOUND, Score, summed
from offsider.core.series import Series
from offsider.storage import slo_counts
from offsider.wiring.config import Config
from offsider.wiring.default import default_config

#: How far back one can look.
WINDOWS: Sequence[str] = tuple(slo_counts.WINDOWS)
#: Shorter runs in all say nothing of what a class needs.
_ENOUGH_SECONDS = 10.0

Group: TypeAlias = Literal["urgency", "feature_category", "shard"]


@dataclass(frozen=True, slots=True)
class ClassLevel:
    """One job class.

    Attributes:
        name: of the class.
        urgency, feature_category, boundary: as its workers declared it; empty when it says nothing.
        shard: the one whose workers ran it; empty for workers without one.
        scores: window -> how its runs went; a window without runs is there too.
    """

    name: str
    urgency: str
    feature_category: str
    boundary: str
    shard: str
    scores: Mapping[str, Score]


@dataclass(frozen=True, slots=True)
class ServiceLevels:
    """How all runs of one server went.

    Attributes:
        objective: the share of runs that shall be satisfied.
        budget_window: the time that the error budget is for.
        classes: each class, once for each shard and whatever else it was declared with.
    """

    objective: float
    budget_window: str
    classes: Sequence[ClassLevel]

    @classmethod
    def read(cls, config: Config | None = None) -> ServiceLevels:
        """Look now; one round trip.

        Raises:
            RedisFailure: the server does not answer.
        """
        config = config if config is not None else default_config()
        scores: dict[tuple[str, str, str, str, str], dict[str, Score]] = {}
        past = config.kept.get(slo_counts.Past, slo_counts.Past)
        for window, found in slo_counts.read(config.shared_redis(), config.clock.now(), past).items():
            for labels, score in found:
                name, urgency, category, boundary, shard = (labels.get(label, "") for label in _LABELS)
                key = name, urgency, category, boundary, shard
                scores.setdefault(key, dict.fromkeys(WINDOWS, Score()))[window] = score
        classes = [ClassLevel(*key, scores[key]) for key in sorted(scores)]
        return cls(config.slo.apdex_objective, config.slo.budget_window, classes)

    @property
    def total(self) -> dict[str, Score]:
        """Window -> all classes together."""
        return _summed(self.classes)

    def by(self, group: Group) -> dict[str, dict[str, Score]]:
        """Urgency, category or shard -> window -> its classes together."""
        members: dict[str, list[ClassLevel]] = {}
        for each in self.classes:
            members.setdefault(getattr(each, group), []).append(each)
        return {name: _summed(levels) for name, levels in members.items()}


_LABELS = ("class", "urgency", "feature_category", "boundary", "shard")


def _summed(levels: Iterable[ClassLevel]) -> dict[str, Score]:
    every = list(levels)
    return {window: summed(level.scores[window] for level in every) for window in WINDOWS}


def cpu_shares(series: Iterable[Series]) -> dict[str, float]:
    """Class -> the share of its time that its runs compute, of the classes that have run for long enough to tell."""
    sums: dict[str, Series] = {}
    for one in series:
        name = one.labels.get("class", "")
        sums.setdefault(name, Series({})).add(one)
    return {
        name: min(1.0, one.cpu_seconds / one.run_seconds)
        for name, one in sums.items()
        if one.run_seconds >= _ENOUGH_SECONDS
    }


def cpu_bound(series: Sequence[Series]) -> dict[str, float]:
    """Class -> that share, of those that compute most of the time and are not declared as ``cpu``."""
    declared = {one.labels.get("class", "") for one in series if one.labels.get("boundary") == "cpu"}
    return {name: share for name, share in cpu_shares(series).items() if share > CPU_BOUND and name not in declared}
