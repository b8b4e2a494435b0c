"""The tests: no-ops, jobs of 10 ms, and pick-up latency, each at every round-trip time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.compare import runs
from bench.compare.contestant import Contestant
from bench.compare.plan import Scale, Test
from bench.compare.runs import Figures

ROUND_TRIPS_MS = (0.0, 0.5, 1.0, 5.0)
NO_OPS, SHORT_JOBS, PICK_UP = "no-ops", "10 ms", "pick-up"
IDLE_ROUND_TRIPS = 5
THREADS, MANY_THREADS, JOB_MS = 10, 50, 10
SCALE = Scale(
    repeats=7,
    few=7,
    rare=frozenset(),
    run_seconds=1.5,
    pushes=100,
    idle_seconds=0.0,
    patience_seconds=0.0,
    extra_rounds=0,
)


def name_of(test: str, rtt_ms: float) -> str:
    """Return the name of a test at one distance."""
    return f"{test} at {rtt_ms:g} ms"


def tests(round_trips_ms: Sequence[float]) -> list[Test]:
    return [test for rtt_ms in round_trips_ms for test in _at(rtt_ms)]


def _at(rtt_ms: float) -> tuple[Test, ...]:
    def no_ops_per_second(one: Contestant) -> float:
        # Estimate for the first run: one job per thread and round trip.
        return min(one.rate, THREADS / (rtt_ms / 1000)) if rtt_ms else one.rate

    return (
        Test(
            name_of(NO_OPS, rtt_ms),
            f"no-op at concurrency {THREADS}",
            partial(_drain, rtt_ms=rtt_ms, concurrency=THREADS),
            rate=no_ops_per_second,
        ),
        Test(
            name_of(SHORT_JOBS, rtt_ms),
            f"{JOB_MS} ms at concurrency {MANY_THREADS}",
            partial(_drain, rtt_ms=rtt_ms, concurrency=MANY_THREADS, job_ms=JOB_MS),
            rate=lambda one: min(one.rate, 3_000),
        ),
        Test(name_of(PICK_UP, rtt_ms), "from push to start, idle worker", partial(_pick_up, rtt_ms=rtt_ms)),
    )


def _drain(
    contestant: Contestant,
    programs: Path,
    jobs: int,
    _scale: Scale,
    *,
    rtt_ms: float,
    concurrency: int,
    job_ms: float = 0,
) -> Figures:
    return runs.drain(contestant, programs, jobs=jobs, concurrency=concurrency, job_ms=job_ms, rtt_ms=rtt_ms)


def _pick_up(contestant: Contestant, programs: Path, _jobs: int, scale: Scale, *, rtt_ms: float) -> Figures:
    # The worker is idle once its acknowledgement, an empty claim and the waiting pop have reached the server.
    patient = replace(contestant, gap_ms=contestant.gap_ms + IDLE_ROUND_TRIPS * rtt_ms)
    return runs.latency(patient, programs, pushes=scale.pushes, rtt_ms=rtt_ms)
