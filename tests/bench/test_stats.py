"""Repeats become medians and ranges; disturbed repeats count only if there are no better ones."""

import pytest

from bench.report import Rows, Sample, Summary, quantile, summarise


def test_a_row_is_the_median_with_its_range():
    assert summarise([(3.0, False), (1.0, False), (10.0, False)]) == Summary(3.0, 1.0, 10.0, 3)


def test_disturbed_repeats_are_left_out():
    assert summarise([(3.0, False), (900.0, True), (5.0, False)]) == Summary(4.0, 3.0, 5.0, 2)


def test_if_all_samples_are_noisy_the_row_is_marked():
    assert summarise([(3.0, True), (5.0, True)]) == Summary(4.0, 3.0, 5.0, 2, noisy=True)


@pytest.mark.parametrize("share, expected", [(0.5, 50), (0.99, 99), (1.0, 100), (0.0, 1)])
def test_a_quantile_is_one_of_the_values(share, expected):
    assert quantile([float(number) for number in range(1, 101)], share) == expected


def test_samples_are_found_by_test_and_contestant():
    rows = Rows(
        [
            Sample("drain", "a", 0, {"rate": 10.0}),
            Sample("drain", "a", 1, {"rate": 30.0}),
            Sample("drain", "b", 0, error="its worker ended"),
            Sample("push", "a", 0, {"rate": 5.0}),
        ]
    )
    assert rows.contestants("drain") == ["a", "b"]
    found = rows.summary("drain", "a", "rate")
    assert found is not None
    assert found.median == 20.0
    assert rows.summary("drain", "a", "p50") is None
    assert rows.summary("drain", "b", "rate") is None
