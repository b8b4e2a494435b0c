"""The order of runs, their number of jobs, and repetitions."""

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

from bench.compare.bench import Broken
from bench.compare.rivals import Contestant
from bench.compare.runs import Scale
from bench.compare.tournament import QUICK, Test as Play, Tournament

SCALE = Scale(
    repeats=2,
    run_seconds=2.0,
    pushes=1,
    idle_seconds=0.0,
    patience_seconds=0.0,
    extra_rounds=1,
)
NAMES = ("a", "b")


def contestant(name: str) -> Contestant:
    return Contestant(name=name, app=f"{name}_app", rate=1_000, worker="", settings="", safety="")


class Stage:
    """A test that notes who ran with how many jobs, at a given rate."""

    def __init__(self, rate: float = 1_000.0, *, others: float = 0.0, spins: Sequence[float] = (1.0,)) -> None:
        self.played: list[tuple[str, int]] = []
        self.spin = cycle(spins).__next__
        self.rate, self.others = rate, others

    def __call__(self, one: Contestant, _programs: Path, jobs: int, _scale: Scale) -> dict[str, float]:
        self.played.append((one.name, jobs))
        return {"rate": self.rate, "seconds": jobs / self.rate, "jobs": float(jobs), "others": self.others}

    def play(self, *, names: tuple[str, ...] = NAMES, **options: int) -> Tournament:
        test = Play("drain", "", self, rate=lambda one: one.rate, **options)
        contestants = [contestant(name) for name in names]
        tournament = Tournament(contestants, dict.fromkeys(names, Path()), [test], SCALE, spin=self.spin)
        tournament.play()
        return tournament


def test_contestants_take_turns():
    stage = Stage()
    stage.play()
    assert [name for name, _ in stage.played] == ["a", "b", "a", "b"]


def test_a_run_lasts_as_long_as_it_should():
    stage = Stage()
    stage.play(names=("a",))
    assert [jobs for _, jobs in stage.played] == [2_000, 2_000]


def test_one_that_was_too_short_was_a_probe():
    stage = Stage(rate=10_000.0)
    tournament = stage.play(names=("a",))
    assert [jobs for _, jobs in stage.played] == [2_000, 20_000, 20_000]
    assert len(tournament.samples) == 2


def test_disturbed_runs_are_repeated():
    stage = Stage(others=1.0)
    tournament = stage.play(names=("a",))
    assert [sample.noisy for sample in tournament.samples] == [True] * 3


def test_runs_on_a_slow_machine_are_repeated():
    stage = Stage(spins=[1.0, 1.0, 1.0, 2.0, 1.0, 1.1])  # before and after each run
    assert [sample.noisy for sample in stage.play(names=("a",)).samples] == [False, True, False]


def test_a_failing_contestant_does_not_stop_the_others():
    def broken(*_args) -> dict[str, float]:
        raise Broken("its worker ended")

    tournament = Tournament([contestant("a")], {"a": Path()}, [Play("drain", "", broken)], QUICK)
    assert {sample.error for sample in tournament.play()} == {"its worker ended"}
