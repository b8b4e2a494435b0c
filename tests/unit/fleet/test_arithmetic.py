"""What was promised of jobs, and how well it is kept."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from offsider.fleet import Score
from offsider.fleet.shards import ZONE, desired_processes, utilization


def test_a_score_has_the_success_ratio_and_the_burn_rate():
    score = Score(total=1000, failed=4, missed=6)
    assert score.satisfied == 990
    assert score.apdex == 0.99
    assert score.burn(0.995) == pytest.approx(2.0)
    assert score.budget_left(0.995) == pytest.approx(-1.0)
    assert Score(1000, 1, 1).budget_left(0.995) == pytest.approx(0.6)


def test_without_runs_there_is_no_score():
    nothing = Score()
    assert (nothing.apdex, nothing.burn(0.9), nothing.budget_left(0.9)) == (None,) * 3


def test_counts_that_do_not_fit_make_no_impossible_shares():
    odd = Score(total=1, failed=2, missed=3)
    assert (odd.satisfied, odd.apdex) == (0, 0.0)


def test_utilization_is_the_share_of_the_time_of_threads():
    assert utilization(30, 100) == 0.3
    assert utilization(0, 0) is None


@pytest.mark.parametrize(
    "alive,pressure,used,wanted",
    [
        (4, 0.0, 0.30, 4),  # within the target range, no job waits
        (4, 1.0, 0.43, 4),  # at the very edge of both
        (4, 1.5, 0.30, 6),  # late
        (4, 90.0, 0.30, 8),  # however late: twice as many
        (4, 0.0, 0.66, 8),  # overused
        (4, 1.2, 0.66, 8),  # the stronger reason counts
        (10, 0.0, 0.10, 4),  # too many
        (10, 0.9, 0.10, 10),  # too many, but jobs wait
        (10, 0.0, 0.0, 0),  # idle
        (0, 0.0, 0.0, 0),
        (0, 0.1, 0.0, 1),
        (30, 9.0, 1.0, 91),  # all of them, without a limit
    ],
)
def test_the_desired_processes_follow_from_waits_and_utilization(alive, pressure, used, wanted):
    assert desired_processes(alive, waiting=pressure > 0, pressure=pressure, used=used) == wanted


@pytest.mark.parametrize(
    "alive,waiting,pressure,wanted",
    [(3, False, 0.0, 0), (0, False, 0.0, 0), (0, True, 0.01, 1), *((alive, True, 0.0, 1) for alive in (0, 1, 3))],
)
def test_a_shard_scales_to_zero_but_not_while_a_job_waits(alive, waiting, pressure, wanted):
    assert desired_processes(alive, waiting=waiting, pressure=pressure, used=0.0) == wanted


@given(st.integers(1, 400), st.floats(0, 1), st.floats(0, 0.5))
def test_under_constant_load_the_recommendation_settles(alive, load_share, pressure):
    """The load is constant, so the recommended process count must not change again."""
    work = alive * load_share

    def next_count(alive: int) -> int:
        used = min(1.0, work / alive) if alive else 0.0
        return desired_processes(alive, waiting=pressure > 0, pressure=pressure, used=used)

    for _ in range(4):
        alive = next_count(alive)
    assert next_count(alive) == alive
    assert work <= ZONE[1] * alive + 1e-9, "less is a rounding error"
