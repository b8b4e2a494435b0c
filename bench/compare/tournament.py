"""The tests, and their order: each repeat of each test runs once for all contestants, and
noisy runs are repeated.

1. `play` runs repeat after repeat; the number of jobs is based on the last measured rate
2. a run that was much too short is repeated once, with more jobs
3. extra rounds repeat runs that other programs disturbed
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat as repeated
from pathlib import Path

from bench.compare import runs
from bench.compare.bench import Broken, say
from bench.compare.machine import NOISY_CORES, NOISY_SPIN, spin_ms
from bench.compare.rivals import Contestant
from bench.compare.runs import Figures, Scale
from bench.report import Sample

PROBE_SHARE = 0.4
MIN_JOBS, MAX_JOBS = 200, 400_000


QUICK = Scale(
    repeats=3,
    run_seconds=0.8,
    pushes=100,
    idle_seconds=3.0,
    patience_seconds=110.0,
    extra_rounds=0,
)
FULL = Scale(
    repeats=5,
    run_seconds=3.0,
    pushes=200,
    idle_seconds=10.0,
    patience_seconds=150.0,
    extra_rounds=2,
)


@dataclass(frozen=True)
class Test:
    """One test.

    Attributes:
        rate: expected jobs/s of a contestant, for the size of its first run; None if the number of jobs is fixed.
        run: runs the test with a number of jobs.
        side_by_side: run all contestants at once, because the test mostly waits.
        max_repeats: lower for a test that takes long or hardly varies.
    """

    name: str
    title: str
    run: Callable[[Contestant, Path, int, Scale], Figures]
    rate: Callable[[Contestant], float] | None = None
    applies: Callable[[Contestant], bool] = lambda _contestant: True
    side_by_side: bool = False
    max_repeats: int = 1_000

    def jobs(self, rate: float, scale: Scale) -> int:
        """Return the number of jobs for a run of the target duration."""
        return int(min(max(rate * scale.run_seconds, MIN_JOBS), MAX_JOBS))


def _rate_of_sleeps(concurrency: int, contestant: Contestant) -> float:
    return min(contestant.rate, 100 * concurrency)


TESTS = (
    Test("drain", "no-op, one process", runs.drain, rate=lambda one: one.rate),
    Test("drain2", "no-op, two processes", partial(runs.drain, processes=2), rate=lambda one: one.rate * 1.8),
    Test(
        "log",
        "no-op, one process, job log at INFO in a file",
        partial(runs.drain, log="info"),
        rate=lambda one: one.rate / 2,
        applies=lambda one: one.default_log,
    ),
    *(
        Test(
            f"sleep{concurrency}",
            f"10 ms at concurrency {concurrency}",
            partial(runs.drain, job_ms=10, concurrency=concurrency),
            rate=partial(_rate_of_sleeps, concurrency),
            applies=lambda one: not one.runs_one,
        )
        for concurrency in (50, 100)
    ),
    Test("push", "pushed one by one", runs.push, rate=lambda _one: 3_000),
    Test(
        "apush",
        "pushed one by one, by a coroutine",
        partial(runs.push, word="apush"),
        rate=lambda _one: 3_000,
        applies=lambda one: one.has_async_push,
    ),
    Test(
        "bulk",
        "pushed in bulk",
        partial(runs.push, word="bulk"),
        rate=lambda one: 10_000 if one.runs_one else 100_000,
        applies=lambda one: one.has_bulk,
    ),
    Test("latency", "from push to start, idle", runs.latency),
    Test("memory", "memory and idle cost", runs.memory, max_repeats=2),
    Test("kill", "kill -9 amid 200 jobs of 50 ms", runs.kill, side_by_side=True, max_repeats=2),
)


@dataclass
class Tournament:
    """One run of the program.

    Attributes:
        programs: contestant's name -> folder of its programs.
        spin: current duration of a fixed piece of work, in ms.
    """

    contestants: Sequence[Contestant]
    programs: Mapping[str, Path]
    tests: Sequence[Test]
    scale: Scale
    spin: Callable[[], float] = spin_ms
    samples: list[Sample] = field(default_factory=list[Sample])
    _rates: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    _fastest_spin_ms: float = float("inf")

    def play(self) -> list[Sample]:
        for repeat in range(self.scale.repeats):
            for test in self.tests:
                if repeat < test.max_repeats:
                    self._round(test, [one for one in self.contestants if test.applies(one)], repeat)
        for extra in range(self.scale.extra_rounds):
            for test in self.tests:
                self._round(test, list(self._disturbed(test)), self.scale.repeats + extra)
        return self.samples

    def _round(self, test: Test, contestants: Sequence[Contestant], repeat: int) -> None:
        if test.side_by_side:
            with ThreadPoolExecutor(max_workers=max(1, len(contestants))) as pool:
                self._note(list(pool.map(self._sample, repeated(test), contestants, repeated(repeat))))
        else:
            self._note(self._sample(test, one, repeat) for one in contestants)

    def _note(self, samples: Iterable[Sample]) -> None:
        for sample in samples:
            self.samples.append(sample)
            say(f"{sample.repeat + 1}  {sample.test:<9} {sample.contestant:<18} {_in_words(sample)}")

    def _sample(self, test: Test, contestant: Contestant, repeat: int) -> Sample:
        before = self.spin()
        try:
            figures = self._run(test, contestant)
        except (Broken, subprocess.SubprocessError, OSError) as error:
            return Sample(test.name, contestant.name, repeat, error=str(error))
        after = self.spin()
        spin = max(before, after)
        self._fastest_spin_ms = min(self._fastest_spin_ms, before, after)
        disturbed = spin > NOISY_SPIN * self._fastest_spin_ms or figures.get("others", 0.0) > NOISY_CORES
        return Sample(
            test.name, contestant.name, repeat, {**figures, "spin_ms": spin}, noisy=disturbed and not test.side_by_side
        )

    def _run(self, test: Test, contestant: Contestant) -> Figures:
        programs = self.programs[contestant.name]
        if test.rate is None:
            return test.run(contestant, programs, 0, self.scale)
        key = (test.name, contestant.name)
        is_first = key not in self._rates
        rate = self._rates.setdefault(key, test.rate(contestant))
        figures = test.run(contestant, programs, test.jobs(rate, self.scale), self.scale)
        self._rates[key] = figures["rate"]
        if is_first and figures["seconds"] < PROBE_SHARE * self.scale.run_seconds:
            more = test.jobs(figures["rate"], self.scale)
            if more > figures["jobs"]:
                return test.run(contestant, programs, more, self.scale)
        return figures

    def _disturbed(self, test: Test) -> Iterator[Contestant]:
        for contestant in self.contestants:
            mine = [one for one in self.samples if (one.test, one.contestant) == (test.name, contestant.name)]
            if mine and sum(not one.noisy and not one.error for one in mine) < min(3, len(mine)):
                yield contestant


def _in_words(sample: Sample) -> str:
    if sample.error:
        return f"failed: {sample.error.splitlines()[0][:200]}"
    shown = ("rate", "worker_us", "p50", "p99", "rss_mb", "idle_cpu", "lost", "doubled", "last_seconds")
    figures = [f"{name} {sample.figures[name]:,.1f}" for name in shown if name in sample.figures]
    return ", ".join(figures) + ("   (noisy)" if sample.noisy else "")
