"""Heights in a chart, in pixels from the top."""

from __future__ import annotations

import math
from dataclasses import dataclass

_INTERVALS = 4
_MIN_HIGHEST = 1e-6  # below this, grid lines would not be distinct floats
_MAX_HIGHEST = 1e15


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
        highest = min(max(highest, _MIN_HIGHEST), _MAX_HIGHEST)
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


def _round_up(value: float) -> float:
    """Return the next 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return power * next(each for each in (1, 2, 5, 10) if value <= each * power * (1 + 1e-9))
