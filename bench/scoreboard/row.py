"""A row of the scoreboard, and its report.

    @row("R1", "one kill -9 a second", bar="lost 0; ...")
    def killed_workers(env: Environment, report: Report) -> None:
        ...
        env.finish(report, acked, server)
        report.timed("> 3,000 jobs/s", rate > 3000)

A bar consists of checks. Checks with `count` apply in every tier. Checks with `timed` are meaningful only on an idle
machine: tier full judges them, tier smoke lists them as not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, astuple, dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from bench.scoreboard.environment import Environment

TIERS = ("smoke", "full")


@dataclass
class Tally:
    """The jobs of a row by result.

    Attributes:
        pushed: attempted pushes.
        acked: jobs whose push returned.
        ran: acked jobs that had their effect.
        lost: acked jobs without an effect that are not stored on the server.
        duplicated: effects beyond the first of each job.
        recovered: jobs that ran after an interruption.
        buried: acked jobs without an effect in the dead set.
        stranded: acked jobs without an effect in a private list.
        left: acked jobs without an effect in a queue, the retry set or the schedule.
    """

    pushed: int = 0
    acked: int = 0
    ran: int = 0
    lost: int = 0
    duplicated: int = 0
    recovered: int = 0
    buried: int = 0
    stranded: int = 0
    left: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*map(sum, zip(astuple(self), astuple(other), strict=True)))


@dataclass
class Check:
    """One check of a bar. ``timed`` checks apply only in tier full."""

    what: str
    holds: bool
    timed: bool = False


@dataclass
class Report:
    """The report of a row.

    Attributes:
        figures: additional counts and times, by name.
        skipped: why the whole row was not run; empty if it was.
        broken: the traceback if the row itself failed.
    """

    name: str
    tier: str
    seed: int
    tally: Tally = field(default_factory=Tally)
    seconds: float = 0.0
    checks: list[Check] = field(default_factory=list[Check])
    figures: dict[str, str] = field(default_factory=dict[str, str])
    skipped: str = ""
    broken: str = ""

    def count(self, what: str, holds: object) -> None:
        """Add a check that applies on any machine."""
        self.checks.append(Check(what, bool(holds)))

    def timed(self, what: str, holds: object) -> None:
        """Add a check that needs an idle machine."""
        self.checks.append(Check(what, bool(holds), timed=True))

    def figure(self, name: str, value: object) -> None:
        self.figures[name] = f"{value:,.2f}" if isinstance(value, float) else str(value)

    def within(self, what: str, value: float, limit: float, unit: str = "s") -> None:
        """Add a figure, and the timed check of its upper bound."""
        self.figure(what, f"{value:.1f} {unit}")
        self.timed(f"{what} < {limit:g} {unit}: {value:.1f}", value < limit)

    def nothing(self, what: str, found: int | Iterable[object]) -> None:
        """Add the check that something never happened; ``found`` has the occurrences, or their number."""
        listed = [] if isinstance(found, int) else [*found]
        number = found if isinstance(found, int) else len(listed)
        got = f", got {number:,}" + (f": {listed[:5]}" if listed else "")
        self.count(f"{what} 0{got if number else ''}", number == 0)

    def at_most(self, what: str, found: int, most: int) -> None:
        """Add the check of an upper bound."""
        self.count(f"{what}: {found:,} <= {most:,}", found <= most)

    def nothing_missing(self) -> None:
        """Add the check of nearly every bar: each acked job has had its effect."""
        for what in ("lost", "buried", "stranded", "left"):
            self.nothing(what, getattr(self.tally, what))

    @property
    def missed(self) -> list[str]:
        """The checks of this tier that failed."""
        if self.broken:
            return ["the row did not end"]
        return [check.what for check in self._judged if not check.holds]

    @property
    def unjudged(self) -> list[str]:
        """The checks that this tier does not judge."""
        return [check.what for check in self.checks if check not in self._judged]

    @property
    def _judged(self) -> list[Check]:
        return [check for check in self.checks if self.tier == "full" or not check.timed]

    @property
    def passed(self) -> bool:
        return not self.missed

    @property
    def verdict(self) -> str:
        if self.skipped:
            return "skipped"
        return "pass" if self.passed else "FAIL"

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"verdict": self.verdict, "missed": self.missed, "unjudged": self.unjudged}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Report:
        fields = {key: value for key, value in stored.items() if key not in {"verdict", "missed", "unjudged"}}
        fields["tally"] = Tally(**fields["tally"])
        fields["checks"] = [Check(**check) for check in fields["checks"]]
        return cls(**fields)


Play: TypeAlias = Callable[["Environment", Report], None]


@dataclass(frozen=True)
class Row:
    """One line of the scoreboard.

    Attributes:
        what: description of the faults.
        bar: description of the checks.
        play: the function that runs it.
        heavy: it uses both cores, so no other heavy row runs at the same time.
    """

    name: str
    what: str
    bar: str
    play: Play
    heavy: bool = False


def row(name: str, what: str, *, bar: str, heavy: bool = False) -> Callable[[Play], Row]:
    """Decorate a function as a row."""
    return lambda play: Row(name, what, bar, play, heavy)
