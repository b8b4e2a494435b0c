"""Counts that only grow."""

from __future__ import annotations

from dataclasses import fields

from offsider.core.series import BOUNDS_SECONDS, DURATION_SECONDS, SIDEKIQ_SECONDS, Load, Series, regroup, summed

COUNTS = [each.name for each in fields(Series) if each.name != "labels"]


def filled(first: int, **labels: str) -> Series:
    """A series with another number in each count."""
    series = Series(labels)
    for number, name in enumerate(COUNTS, first):
        count = getattr(series, name)
        setattr(series, name, [number + place for place in range(len(count))] if isinstance(count, list) else number)
    return series


def test_series_with_the_same_labels_are_summed():
    one, two, other = filled(1, a="x", b="1"), filled(1, a="x", b="2"), filled(9, b="1")
    both, rest = summed([one, two, other], ["a"])
    assert (both.labels, rest.labels) == ({"a": "x"}, {})
    assert both.cells(COUNTS, 1) == [2 * cell for cell in one.cells(COUNTS, 1)]
    assert rest.cells(COUNTS, 1) == other.cells(COUNTS, 1)


def test_cells_are_the_named_counts():
    series = filled(1, a="x")
    series.run_seconds = 2.5
    assert Series.of({"a": "x"}, series.cells(COUNTS, 1000), COUNTS, 1000) == series
    assert series.cells(["failed", "run_seconds", "queue_buckets"], 1000) == [2, 2500, *series.queue_buckets]


def test_a_new_series_has_a_bucket_for_each_bound_and_one_for_longer_runs():
    series = Series({})
    assert len(series.run_buckets) == len(series.failed_buckets) == len(DURATION_SECONDS) + 1
    assert len(series.queue_buckets) == len(BOUNDS_SECONDS) + 1
    every = [1] * len(series.run_buckets)
    assert sum(regroup(every, SIDEKIQ_SECONDS)) == sum(regroup(every, BOUNDS_SECONDS)) == len(every)


def test_loads_are_added():
    assert Load(1.0, 2.0) + Load(3.0, 4.0) == Load(4.0, 6.0)
