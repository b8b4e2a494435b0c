"""The tests by name: the quantity, the contestants, and the number of jobs of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.compare import runs
from bench.compare.contestant import Contestant
from bench.compare.runs import Figures

FEWEST_JOBS, MAX_JOBS = 200, 400_000


@dataclass(frozen=True)
class Scale:
    """The number and length of the runs.

    Attributes:
        run_seconds: target duration of a run.
        few: repeats of the tests in ``rare``, which take long or hardly vary.
        rtt_ms: a proxy adds this round trip between worker or producer and server; None without a proxy.
    """

    repeats: int
    few: int
    rare: frozenset[str]
    run_seconds: float
    pushes: int
    idle_seconds: float
    patience_seconds: float
    extra_rounds: int
    rtt_ms: float | None = None


QUICK = Scale(
    repeats=3,
    few=1,
    rare=frozenset({"pinned2", "latency", "memory", "kill"}),
    run_seconds=0.8,
    pushes=100,
    idle_seconds=3.0,
    patience_seconds=110.0,
    extra_rounds=0,
)
FULL = Scale(
    repeats=5,
    few=2,
    rare=frozenset({"memory", "kill"}),
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
    """

    name: str
    title: str
    run: Callable[[Contestant, Path, int, Scale], Figures]
    rate: Callable[[Contestant], float] | None = None
    applies: Callable[[Contestant], bool] = lambda _contestant: True
    side_by_side: bool = False

    def jobs(self, rate: float, scale: Scale) -> int:
        """Return the number of jobs for a run of the target duration."""
        return int(min(max(rate * scale.run_seconds, FEWEST_JOBS), MAX_JOBS))


def _drain(
    contestant: Contestant,
    programs: Path,
    jobs: int,
    scale: Scale,
    *,
    concurrency: int = 10,
    processes: int = 1,
    job_ms: float = 0,
    pinned: bool = False,
    log: str = "warn",
) -> Figures:
    return runs.drain(
        contestant,
        programs,
        jobs=jobs,
        concurrency=concurrency,
        processes=processes,
        job_ms=job_ms,
        pinned=pinned,
        log=log,
        rtt_ms=scale.rtt_ms,
    )


def _push(word: str, contestant: Contestant, programs: Path, jobs: int, scale: Scale) -> Figures:
    return runs.push(contestant, programs, jobs=jobs, word=word, rtt_ms=scale.rtt_ms)


def _latency(contestant: Contestant, programs: Path, _jobs: int, scale: Scale) -> Figures:
    return runs.latency(contestant, programs, pushes=scale.pushes, rtt_ms=scale.rtt_ms)


def _memory(contestant: Contestant, programs: Path, _jobs: int, scale: Scale) -> Figures:
    return runs.memory(contestant, programs, seconds=scale.idle_seconds, rtt_ms=scale.rtt_ms)


def _kill(contestant: Contestant, programs: Path, _jobs: int, scale: Scale) -> Figures:
    return runs.kill(contestant, programs, patience_seconds=scale.patience_seconds, rtt_ms=scale.rtt_ms)


TESTS = (
    Test("drain", "no-op, one process", _drain, rate=lambda one: one.rate),
    Test("drain2", "no-op, two processes", partial(_drain, processes=2), rate=lambda one: one.rate * 1.8),
    Test("pinned", "no-op, one process on one CPU", partial(_drain, pinned=True), rate=lambda one: one.rate),
    Test(
        "pinned2",
        "no-op, two processes on a CPU each",
        partial(_drain, processes=2, pinned=True),
        rate=lambda one: one.rate * 1.8,
    ),
    Test(
        "log",
        "no-op, one process, job log at INFO in a file",
        partial(_drain, log="info"),
        rate=lambda one: one.rate / 2,
        applies=lambda one: one.default_log,
    ),
    Test(
        "sleep10",
        "10 ms at concurrency 10",
        partial(_drain, job_ms=10),
        rate=lambda one: min(one.rate, 1_000),
    ),
    Test(
        "sleep50",
        "10 ms at concurrency 50",
        partial(_drain, job_ms=10, concurrency=50),
        rate=lambda one: min(one.rate, 5_000),
        applies=lambda one: not one.runs_one,
    ),
    Test(
        "sleep100",
        "10 ms at concurrency 100",
        partial(_drain, job_ms=10, concurrency=100),
        rate=lambda one: min(one.rate, 10_000),
        applies=lambda one: not one.runs_one,
    ),
    Test("push", "pushed one by one", partial(_push, "push"), rate=lambda _one: 3_000),
    Test(
        "apush",
        "pushed one by one, by a coroutine",
        partial(_push, "apush"),
        rate=lambda _one: 3_000,
        applies=lambda one: one.has_async_push,
    ),
    Test(
        "bulk",
        "pushed in bulk",
        partial(_push, "bulk"),
        rate=lambda one: 10_000 if one.runs_one else 100_000,
        applies=lambda one: one.has_bulk,
    ),
    Test("latency", "from push to start, idle", _latency),
    Test("memory", "memory and idle cost", _memory),
    Test("kill", "kill -9 amid 200 jobs of 50 ms", _kill, side_by_side=True),
)
