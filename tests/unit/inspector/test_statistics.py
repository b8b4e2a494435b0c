"""Shares of runs are compared as textbooks do, steps are found, and noise is no step."""

from __future__ import annotations

import random

import pytest

from offsider.inspector.statistics import (
    Share,
    dispersion,
    exceeds,
    find_step,
    median,
    percentile,
)

LAST = 30.0


def minutes(*pairs: tuple[int, int]) -> list[Share]:
    return [Share(*pair) for pair in pairs]


def test_the_interval_is_wilsons():
    # By hand: (0.1 + 6.6349 / 200 ± 2.57583 * sqrt(0.0009 + 6.6349 / 40000)) / (1 + 6.6349 / 100)
    assert Share(10, 100).interval() == pytest.approx((0.046026, 0.203751), abs=1e-5)
    assert Share(0, 10).interval() == pytest.approx((0.0, 0.398861), abs=1e-5)
    assert Share(10, 10).interval() == pytest.approx((0.601139, 1.0), abs=1e-5)
    assert Share(0, 0).interval() == (0.0, 1.0)


def test_the_probability_is_fishers():
    # The tea of R. A. Fisher: 3 of 4 cups right, and 4 of 4.
    assert exceeds(Share(3, 4), Share(1, 4)) == pytest.approx(17 / 70)
    assert exceeds(Share(4, 4), Share(0, 4)) == pytest.approx(1 / 70)
    assert exceeds(Share(0, 4), Share(4, 4)) == pytest.approx(1.0)
    assert exceeds(Share(5, 4), Share(0, 4)) == 1.0
    assert exceeds(Share(720, 1_000), Share(0, 500)) < 1e-100


def test_medians_and_percentiles():
    assert [median([]), median([3]), median([4, 1, 3]), median([1, 2, 3, 10])] == [0, 3, 3, 2.5]
    bounds = (0.1, 1.0)
    assert percentile([0, 0, 0], bounds, 0.95) is None
    assert [percentile([95, 5, 0], bounds, 0.95), percentile([94, 6, 0], bounds, 0.95)] == [0.1, 1.0]
    assert percentile([1, 1, 98], bounds, 0.95) == float("inf")


def test_bursts_vary_more_than_independent_runs():
    assert dispersion(minutes((5, 10), (5, 10), (0, 0))) == 1.0
    assert dispersion(minutes((0, 10), (10, 10), (0, 10), (10, 10))) > 10
    assert [dispersion([]), dispersion(minutes((0, 10), (0, 10)))] == [1.0, 1.0]


def test_a_step_is_found_in_its_minute_with_the_share_before():
    step = find_step([*minutes((1, 100)) * 40, *minutes((72, 100)) * 5], LAST, tests=500)
    assert step is not None
    assert (step.minute, step.after.value, step.was) == (40, 0.72, 0.01)


@pytest.mark.parametrize(
    "quiet, loud, found",
    [
        (40, minutes((72, 100)), False),
        (40, minutes((72, 100), (72, 100)), False),
        (40, minutes((72, 100), (72, 100), (72, 100)), True),
        (40, minutes((1, 1), (1, 1), (0, 0)), False),
        (40, minutes((3, 3), (3, 3), (0, 0)), True),
        (0, minutes((72, 100), (72, 100), (72, 100)), False),
        (40, minutes((4, 100), (4, 100), (4, 100)), False),
    ],
    ids=["one minute", "a minute and a half", "two minutes", "two failures", "six failures", "no earlier runs", "3 %"],
)
def test_a_step_needs_time_hits_and_a_difference(quiet, loud, found):
    assert (find_step([*minutes((0, 5)) * quiet, *loud], LAST, tests=20) is not None) == found


def test_failures_that_come_in_bursts_are_no_step():
    every_tenth = [*minutes((0, 20)) * 9, *minutes((12, 20))] * 5
    assert find_step([*every_tenth, *minutes((0, 20)) * 7, *minutes((6, 20), (6, 20), (0, 20))], LAST, tests=20) is None


def test_of_500_classes_none_has_a_step_by_chance():
    dice = random.Random(31)
    classes = [(dice.choice((1, 3, 10, 40)), dice.choice((0.0, 0.01, 0.07, 0.3, 0.6))) for _ in range(500)]
    recorded = [
        [Share(sum(dice.random() < share for _ in range(runs)), runs) for _ in range(90)] for runs, share in classes
    ]
    steps = [
        (of_class, end)
        for of_class in recorded
        for end in range(60, 91, 5)
        if find_step(of_class[end - 60 : end], LAST, tests=500)
    ]
    assert steps == []
