"""Sums that only grow."""

from __future__ import annotations

from offsider.core.series import BOUNDS_SECONDS, CELLS, Load, ReleaseRuns, Series


def test_a_new_series_has_a_bucket_for_each_bound_and_an_overflow_bucket():
    series = Series({"class": "A", "queue": "q"})
    assert series.run_buckets == series.queue_buckets == [0] * (len(BOUNDS_SECONDS) + 1)


def test_every_sum_is_added():
    first = Series({}, 1, 2, 3, 4.0, 5.0, [1] * 11, 6.0, [2] * 11, 7)
    first.add(Series({}, 10, 20, 30, 40.0, 50.0, [3] * 11, 60.0, [4] * 11, 70))
    assert first == Series({}, 11, 22, 33, 44.0, 55.0, [4] * 11, 66.0, [6] * 11, 77)


def test_cells_contain_every_sum():
    series = Series({}, 1, 2, 3, 4.5, 5.000001, list(range(11)), 6.25, list(range(11, 22)), 7)
    assert len(series.cells()) == CELLS
    assert Series.of({}, series.cells()) == series


def test_loads_are_added():
    assert Load(1.0, 2.0) + Load(3.0, 4.0) == Load(4.0, 6.0)


def test_runs_of_a_release_are_added_and_have_the_time_of_both_kinds():
    one = ReleaseRuns("mail", "v1", 2, 1, 1500, 500, (1, 1))
    both = one.plus(one)
    assert (both.processed, both.failed, both.run_seconds, list(both.histogram)) == (4, 2, 4.0, [2, 2])
