"""Batch sizes of scans: as large as the time allows, and small enough not to block others."""

from __future__ import annotations

from itertools import islice

import pytest

from offsider.inspector import Chunk, scan
from offsider.inspector.scan import steps


@pytest.fixture
def clock(monkeypatch):
    """A clock that advances only when the test moves it."""

    class Time:
        now = 1000.0

        def monotonic(self) -> float:
            return self.now

    clock = Time()
    monkeypatch.setattr(scan, "time", clock)
    return clock


def taken(clock, seconds_per_job: float, **limits) -> list[int]:
    """The batch sizes of a scan that needs `seconds_per_job`."""
    seen = []
    for step in steps(**limits):
        seen.append(step)
        clock.now += step * seconds_per_job
    return seen


def test_one_step_runs_even_without_time(clock):
    assert taken(clock, 1.0, budget_ms=0) == [50]
    assert taken(clock, 1.0, budget_ms=-5) == [50]


def test_steps_grow_until_they_take_ten_milliseconds(clock):
    assert taken(clock, 1e-5, budget_ms=100)[:4] == [50, 200, 800, pytest.approx(1000, abs=2)]


def test_the_time_is_kept(clock):
    started = clock.now
    taken(clock, 1e-5, budget_ms=100)
    assert clock.now - started == pytest.approx(0.1, abs=0.002)


def test_slow_work_runs_in_small_steps(clock):
    assert set(taken(clock, 0.01, budget_ms=1600)) == {50}


def test_a_step_has_an_upper_bound(clock):
    assert max(islice(steps(1000), 20)) == 10_000


def test_a_small_limit_means_small_steps(clock):
    assert max(islice(steps(1000, most=100), 20)) == 1_000
    assert max(islice(steps(1000, most=0), 20)) == 50


def test_a_chunk_without_a_cursor_is_the_last():
    assert Chunk([], 0, 0, "").complete
    assert not Chunk([], 0, 10, "5").complete
