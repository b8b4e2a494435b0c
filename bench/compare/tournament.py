"""Round robin: each repeat of each test runs once for all contestants, and noisy runs are repeated.

1. `play` runs repeat after repeat; the number of jobs is based on the last measured rate
2. a run that was much too short is repeated once, with more jobs
3. extra rounds repeat runs that other programs disturbed
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import repeat as repeated
from pathlib import Path

from bench.compare.bench import Broken, say
from bench.compare.contestant import Contestant
from bench.compare.machine import NOISY_CORES, NOISY_SPIN, spin_ms
from bench.compare.plan import Scale, Test
from bench.compare.runs import Figures
from bench.compare.stats import Sample

PROBE_SHARE = 0.4


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
                if test.name not in self.scale.rare or repeat < self.scale.few:
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
