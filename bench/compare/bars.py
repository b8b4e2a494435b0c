"""offsider's performance targets, as ratios within one run. They are printed, and do not affect the exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from bench.compare.rivals import CONTESTANTS
from bench.compare.stats import Rows
from bench.compare.tables import patience

OURS = "offsider"
RUBY = next(one.name for one in CONTESTANTS if not one.is_python)
PYTHON = tuple(one.name for one in CONTESTANTS if one.is_python and one.name != OURS)


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


def bars(rows: Rows) -> list[Bar]:
    ours, ruby = _of(rows, OURS), _of(rows, RUBY)

    def fastest(*tests: str) -> float | None:
        return max(_known(rows.value(test, name, "rate") for test in tests for name in PYTHON), default=None)

    return [
        Bar("no-op, one process: times Ruby's", _ratio(ours("drain"), ruby("drain")), 8),
        Bar("no-op, one process: times the fastest Python rival's", _ratio(ours("drain"), fastest("drain")), 15),
        Bar(
            "no-op, pinned: times the best row of any Python rival, pinned or not",
            _ratio(ours("pinned"), fastest("drain", "pinned")),
            8,
        ),
        Bar("no-op, job log at INFO: times Ruby's with its default log", _ratio(ours("log"), ruby("log")), 5),
        Bar("CPU of the worker for a no-op, us", ours("drain", "worker_us"), 9, is_most=True),
        Bar("two processes: times one", _ratio(ours("drain2"), ours("drain")), 1.6),
        Bar("10 ms at concurrency 100: share of 10,000/s", _ratio(ours("sleep100"), 10_000), 0.92),
        Bar("pushed one by one: times Ruby's", _ratio(ours("push"), ruby("push")), 1),
        Bar("pushed one by one: times the fastest Python rival's", _ratio(ours("push"), fastest("push")), 1),
        Bar("pushed by a coroutine: share of a thread's rate", _ratio(ours("apush"), ours("push")), 0.8),
        Bar("pushed in bulk: times Ruby's", _ratio(ours("bulk"), ruby("bulk")), 1.5),
        Bar(
            "from push to start, p50: times Ruby's",
            _ratio(ours("latency", "p50"), ruby("latency", "p50")),
            1,
            is_most=True,
        ),
        Bar(
            "from push to start, p99: times Ruby's",
            _ratio(ours("latency", "p99"), ruby("latency", "p99")),
            0.5,
            is_most=True,
        ),
        Bar(f"not run {patience(rows)} after kill -9", ours("kill", "lost"), 0, is_most=True),
    ]


def _of(rows: Rows, name: str) -> Callable[..., float | None]:
    def value(test: str, figure: str = "rate") -> float | None:
        return rows.value(test, name, figure)

    return value


def _known(values: Iterable[float | None]) -> Iterator[float]:
    return (value for value in values if value is not None)


def _ratio(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours is not None and theirs else None
