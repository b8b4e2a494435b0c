"""A target of a figure. Bars are printed, and do not affect the exit code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bar:
    """One bar.

    Attributes:
        value: the measured value; None if a measurement is missing.
        limit: lower bound of the value, or upper bound with ``is_most``.
    """

    name: str
    value: float | None
    limit: float
    is_most: bool = False

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "not measured"
        return "pass" if (self.value <= self.limit if self.is_most else self.value >= self.limit) else "fail"

    def __str__(self) -> str:
        measured = "-" if self.value is None else f"{self.value:,.2f}"
        sign = "<=" if self.is_most else ">="
        return f"{self.verdict:<13}{measured:>10}   {sign} {self.limit:<7g}{self.name}"
