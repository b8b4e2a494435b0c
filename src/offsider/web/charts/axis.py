"""Positions in a chart: heights in pixels from the top, times as fractions of the width."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

_INTERVALS = 4
_MAX_TICKS = 6
_MAX_COLUMNS = 120  # more would be too narrow on a phone
_LEAST = 1e-6  # below this, grid lines would not be distinct floats
_MOST = 1e15
_STEPS_SECONDS = (60, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)


@dataclass(frozen=True, slots=True)
class Heights:
    """A scale from 0 to a round number at or above the highest value.

    Attributes:
        step: value between two grid lines.
        steps: number of steps.
        top, bottom: positions of the highest line and the zero line, in pixels.
    """

    step: float
    steps: int
    top: float
    bottom: float

    @classmethod
    def over(cls, highest: float, *, whole: bool, top: float, bottom: float) -> Heights:
        """Build the scale for values up to `highest`; with `whole`, grid lines are at whole numbers."""
        highest = min(max(highest, _LEAST), _MOST)
        step = _round_up(highest / _INTERVALS)
        if whole:
            step = max(1.0, step)
        return cls(step=step, steps=max(1, math.ceil(round(highest / step, 6))), top=top, bottom=bottom)

    def of(self, value: float) -> float:
        """Return the position of a value; values beyond the scale are drawn at its edge."""
        share = min(max(value / (self.step * self.steps), 0.0), 1.0)
        return self.bottom - share * (self.bottom - self.top)

    @property
    def lines(self) -> list[float]:
        """The values of the grid lines."""
        return [self.step * each for each in range(self.steps + 1)]


@dataclass(frozen=True, slots=True)
class Columns:
    """Equal steps of time from left to right.

    Attributes:
        starts_at: start of the first column, epoch seconds.
        step_seconds: width of a column.
        count: number of columns.
    """

    starts_at: float
    step_seconds: float
    count: int

    @classmethod
    def over(cls, starts_at: float, ends_at: float, step_seconds: float) -> Columns:
        """Build the columns of a time range counted in such steps; steps are merged into at most 120 columns."""
        steps = max(0, round((ends_at - starts_at) / step_seconds))
        together = max(1, math.ceil(steps / _MAX_COLUMNS))
        return cls(starts_at, step_seconds * together, math.ceil(steps / together))

    @property
    def ends_at(self) -> float:
        return self.starts_at + self.step_seconds * self.count

    @property
    def starts(self) -> list[float]:
        """The start of each column."""
        return [self.starts_at + self.step_seconds * each for each in range(self.count)]

    def sums(self, series: Mapping[float, float]) -> list[float]:
        """Return the sum of a series (start of a step -> value) in each column."""
        sums = [0.0] * self.count
        for at, value in series.items():
            index = math.floor((at - self.starts_at) / self.step_seconds)
            if 0 <= index < self.count:
                sums[index] += value
        return sums

    def middle(self, index: int) -> float:
        """Return the middle of a column, as a fraction of the width."""
        return (index + 0.5) / self.count

    def share(self, at: float) -> float | None:
        """Return a time as a fraction of the width; None outside."""
        if not self.starts_at <= at <= self.ends_at or not self.count:
            return None
        return (at - self.starts_at) / (self.ends_at - self.starts_at)

    @property
    def ticks(self) -> list[float]:
        """Up to six round times."""
        wide = self.step_seconds * self.count
        step = next((each for each in _STEPS_SECONDS if wide / each <= _MAX_TICKS), None)
        if step is None:
            step = math.ceil(wide / _MAX_TICKS / 86_400) * 86_400
        first = math.ceil(self.starts_at / step)
        at = [float(each * step) for each in range(first, math.floor(self.ends_at / step) + 1)]
        return [each for each in at if self.share(each) is not None][:_MAX_TICKS]


def _round_up(value: float) -> float:
    """Return the next 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return power * next(each for each in (1, 2, 5, 10) if value <= each * power * (1 + 1e-9))
