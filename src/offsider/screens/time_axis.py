"""The bars of a chart: equal steps of time, few enough for a phone."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_MAX_BARS = 120
_MAX_TICKS = 6
_MINUTE = 60
_TICKS_SECONDS = (60, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Equal steps of time.

    Attributes:
        starts_at: start of the first step, epoch seconds.
        step_seconds: length of a step.
        count: number of steps.
    """

    starts_at: float
    step_seconds: float
    count: int

    @classmethod
    def over(cls, starts_at: float, ends_at: float, step_seconds: float = _MINUTE, most: int = _MAX_BARS) -> TimeAxis:
        """Build the axis of a time range counted in such steps; steps are merged into at most ``most``."""
        steps = max(0, round((ends_at - starts_at) / step_seconds))
        together = max(1, math.ceil(steps / most))
        return cls(starts_at, step_seconds * together, math.ceil(steps / together))

    @property
    def ends_at(self) -> float:
        """End of the last step."""
        return self.starts_at + self.step_seconds * self.count

    @property
    def step_name(self) -> str:
        """The length of a step: ``minute``, ``5 minutes``."""
        minutes = round(self.step_seconds / _MINUTE)
        return "minute" if minutes == 1 else f"{minutes} minutes"

    def place(self, at: float) -> int | None:
        """Return the number of the step of a time; None outside."""
        number = math.floor((at - self.starts_at) / self.step_seconds)
        return number if 0 <= number < self.count else None

    def sums(self, values: Iterable[tuple[float, float]]) -> list[float]:
        """Return the sum of the values (time, value) in each step."""
        sums = [0.0] * self.count
        for at, value in values:
            place = self.place(at)
            if place is not None:
                sums[place] += value
        return sums

    @property
    def starts(self) -> list[float]:
        """The start of each step."""
        return [self.starts_at + self.step_seconds * each for each in range(self.count)]

    def share(self, at: float) -> float | None:
        """Return a time as a fraction of the axis; None outside."""
        if not self.starts_at <= at <= self.ends_at or not self.count:
            return None
        return (at - self.starts_at) / (self.ends_at - self.starts_at)

    @property
    def ticks(self) -> list[float]:
        """Up to six round times."""
        length = self.ends_at - self.starts_at
        step = next((each for each in _TICKS_SECONDS if length / each <= _MAX_TICKS), None)
        if step is None:
            step = math.ceil(length / _MAX_TICKS / 86_400) * 86_400
        first = math.ceil(self.starts_at / step)
        at = [float(each * step) for each in range(first, math.floor(self.ends_at / step) + 1)]
        return [each for each in at if self.share(each) is not None][:_MAX_TICKS]
