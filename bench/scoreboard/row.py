"""What a row of the scoreboard is, and what it has to tell when it was played.

    @row("R1", "one kill -9 a second", bar="lost 0; ...")
    def killed_workers(ground: Ground, report: Report) -> None:
        ...
        report.tally = ground.tally(acked, server)
        report.count("lost 0", report.tally.lost == 0)
        report.timed("> 3,000 jobs/s", rate > 3000)

A bar is made of checks. Those that `count` hold in every tier; those that are `timed` tell something only on a
machine that does nothing else, and decide in tier full alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from bench.scoreboard.ground import Ground

TIERS = ("smoke", "full")


@dataclass
class Tally:
    """What became of the jobs of a row.

    Attributes:
        pushed: jobs that somebody tried to push.
        acked: those of which the push returned.
        ran: those of them that had their effect.
        lost: acked, no effect, and nowhere to be found.
        duplicated: effects beyond the first of each job.
        recovered: jobs that ran after an interruption.
        buried: without effect in the dead set.
        stranded: without effect in a private list.
        left: without effect in a queue, the retry set or the schedule.
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


@dataclass
class Check:
    """One part of a bar. ``timed`` ones decide in tier full alone."""

    what: str
    holds: bool
    timed: bool = False


@dataclass
class Report:
    """What a row tells.

    Attributes:
        figures: further counts and times, by name.
        partial: parts of the row that are not played, each with its reason.
        skipped: why the whole row was not played; empty when it was.
        broken: the traceback, when the row itself failed.
    """

    name: str
    tier: str
    seed: int
    tally: Tally = field(default_factory=Tally)
    seconds: float = 0.0
    checks: list[Check] = field(default_factory=list[Check])
    figures: dict[str, str] = field(default_factory=dict[str, str])
    partial: list[str] = field(default_factory=list[str])
    skipped: str = ""
    broken: str = ""

    def count(self, what: str, holds: object) -> None:
        """A part of the bar that holds on any machine."""
        self.checks.append(Check(what, bool(holds)))

    def timed(self, what: str, holds: object) -> None:
        """A part of the bar that needs a quiet machine."""
        self.checks.append(Check(what, bool(holds), timed=True))

    def figure(self, name: str, value: object) -> None:
        self.figures[name] = f"{value:,.2f}" if isinstance(value, float) else str(value)

    def nothing_missing(self) -> None:
        """The part of nearly every bar: each job that was acknowledged has had its effect."""
        tally = self.tally
        for what in ("lost", "buried", "stranded", "left"):
            number = getattr(tally, what)
            self.count(f"{what} 0" + (f", got {number:,}" if number else ""), number == 0)

    @property
    def missed(self) -> list[str]:
        """The parts of the bar that this tier wants and that do not hold."""
        if self.broken:
            return ["the row did not end"]
        return [check.what for check in self.checks if not check.holds and (self.tier == "full" or not check.timed)]

    @property
    def passed(self) -> bool:
        return not self.missed

    @property
    def verdict(self) -> str:
        if self.skipped:
            return "skipped"
        return "pass" if self.passed else "FAIL"

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"verdict": self.verdict, "missed": self.missed}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Report:
        fields = {key: value for key, value in stored.items() if key not in {"verdict", "missed"}}
        fields["tally"] = Tally(**fields["tally"])
        fields["checks"] = [Check(**check) for check in fields["checks"]]
        return cls(**fields)


Play: TypeAlias = Callable[["Ground", Report], None]


@dataclass(frozen=True)
class Row:
    """One line of the scoreboard.

    Attributes:
        what: happens in it.
        bar: what has to hold, in words.
        play: carries it out.
        heavy: keeps both cores busy, so that no other heavy row runs beside it.
        tiers: in which it is played.
    """

    name: str
    what: str
    bar: str
    play: Play
    heavy: bool = False
    tiers: tuple[str, ...] = TIERS


def row(
    name: str, what: str, *, bar: str, heavy: bool = False, tiers: tuple[str, ...] = TIERS
) -> Callable[[Play], Row]:
    """Make a row of the function that plays it."""
    return lambda play: Row(name, what, bar, play, heavy, tiers)
