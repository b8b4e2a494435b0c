"""Sums of several workers."""

from __future__ import annotations

from offsider.core.series import Series
from offsider.worker.totals import Totals


def test_counts_of_workers_are_summed_by_labels_and_outlive_them():
    totals = Totals()
    counted = Series({"class": "A", "queue": "q"}, processed=2)
    totals.add(1, [counted], busy=1, concurrency=5)
    totals.add(2, [Series({"queue": "q", "class": "A"}, processed=3), Series({"class": "B", "queue": "q"})], 2, 10)
    assert [one.processed for one in totals.series()] == [5, 0]
    assert (totals.busy, totals.concurrency) == (3, 15)
    totals.forget(1)
    totals.forget(7)
    assert [one.processed for one in totals.series()] == [5, 0]
    assert (totals.busy, totals.concurrency) == (2, 10)
    assert counted.processed == 2, "what was told stays the teller's"


def test_a_reader_has_a_copy():
    totals = Totals()
    totals.add(1, [Series({"class": "A"}, processed=1)], 0, 1)
    totals.series()[0].processed = 99
    assert totals.series()[0].processed == 1
