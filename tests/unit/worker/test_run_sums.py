"""Sums of several workers."""

from __future__ import annotations

from offsider.core.series import Series
from offsider.worker.run_sums import RunSums


def test_what_workers_count_is_summed_by_labels_and_outlives_them():
    sums = RunSums()
    counted = Series({"class": "A", "queue": "q"}, processed=2)
    sums.add(1, [counted], busy=1, concurrency=5)
    sums.add(2, [Series({"queue": "q", "class": "A"}, processed=3), Series({"class": "B", "queue": "q"})], 2, 10)
    assert [one.processed for one in sums.series()] == [5, 0]
    assert (sums.busy, sums.concurrency) == (3, 15)
    sums.forget(1)
    sums.forget(7)
    assert [one.processed for one in sums.series()] == [5, 0]
    assert (sums.busy, sums.concurrency) == (2, 10)
    assert counted.processed == 2, "what was told stays the teller's"


def test_a_reader_has_a_copy():
    sums = RunSums()
    sums.add(1, [Series({"class": "A"}, processed=1)], 0, 1)
    sums.series()[0].processed = 99
    assert sums.series()[0].processed == 1
