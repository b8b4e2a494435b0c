"""Steps of a look: as many as the time allows, and none so long that others wait."""

from __future__ import annotations

from itertools import islice

import pytest

from offsider.inspector import time_budget
from offsider.inspector.time_budget import steps


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still unless the test moves it."""

    class Time:
        now = 1000.0

        def monotonic(self) -> float:
            return self.now

    clock = Time()
    monkeypatch.setattr(time_budget, "time", clock)
    return clock


def taken(clock, seconds_per_job: float, **limits) -> list[int]:
    """The steps of a look that takes so long for each job."""
    seen = []
    for step in steps(**limits):
        seen.append(step)
        clock.now += step * seconds_per_job
    return seen


def test_there_is_one_step_even_without_time(clock):
    assert taken(clock, 1.0, budget_ms=0) == [50]
    assert taken(clock, 1.0, budget_ms=-5) == [50]


def test_steps_grow_until_they_take_ten_milliseconds(clock):
    assert taken(clock, 1e-5, budget_ms=100)[:4] == [50, 200, 800, pytest.approx(1000, abs=2)]


def test_the_time_is_kept(clock):
    started = clock.now
    taken(clock, 1e-5, budget_ms=100)
    assert clock.now - started == pytest.approx(0.1, abs=0.002)


def test_what_is_slow_is_done_in_small_steps(clock):
    assert set(taken(clock, 0.01, budget_ms=1600)) == {50}


def test_a_step_has_a_bound_however_quick_it_is(clock):
    assert max(islice(steps(1000), 20)) == 10_000


def test_who_wants_a_few_gets_small_steps(clock):
    assert max(islice(steps(1000, most=100), 20)) == 1_000
    assert max(islice(steps(1000, most=0), 20)) == 50
