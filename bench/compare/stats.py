"""Combines the repeats of a run into one row: medians with their range, over undisturbed repeats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import ceil
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Sample:
    """One run.

    Attributes:
        figures: measured values; empty if it failed.
        noisy: other programs disturbed it.
        error: why it failed.
    """

    test: str
    contestant: str
    repeat: int
    figures: Mapping[str, float] = field(default_factory=dict[str, float])
    noisy: bool = False
    error: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Summary:
    """One figure of a row.

    Attributes:
        noisy: every repeat was disturbed, so the figure is from disturbed ones.
    """

    median: float
    low: float
    high: float
    count: int
    noisy: bool = False


class Rows:
    """All samples of a run of the program, by test and contestant."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._groups: dict[tuple[str, str], list[Sample]] = {}
        for sample in samples:
            self._groups.setdefault((sample.test, sample.contestant), []).append(sample)

    def contestants(self, test: str) -> list[str]:
        return [contestant for name, contestant in self._groups if name == test]

    def samples(self, test: str, contestant: str) -> list[Sample]:
        return self._groups.get((test, contestant), [])

    def summary(self, test: str, contestant: str, figure: str) -> Summary | None:
        """Return the summary of a figure; None if no repeat has it."""
        having = [sample for sample in self.samples(test, contestant) if figure in sample.figures]
        return summarise([(sample.figures[figure], sample.noisy) for sample in having])

    def value(self, test: str, contestant: str, figure: str) -> float | None:
        found = self.summary(test, contestant, figure)
        return None if found is None else found.median

    def error(self, test: str, contestant: str) -> str:
        """Return why a figure is missing; empty if it is not."""
        return next((sample.error for sample in self.samples(test, contestant) if sample.error), "")


def summarise(values: Sequence[tuple[float, bool]]) -> Summary | None:
    """Summarize pairs of value and noisiness; if there are quiet values, ignore the noisy ones."""
    quiet = [value for value, noisy in values if not noisy]
    used = quiet or [value for value, _ in values]
    if not used:
        return None
    return Summary(median(used), min(used), max(used), len(used), noisy=not quiet)


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the quantile of sorted values: the nearest value that ``share`` of them do not exceed."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)]
