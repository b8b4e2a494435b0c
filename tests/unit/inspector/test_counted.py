"""The counted jobs, and their outcomes."""

from __future__ import annotations

from offsider.inspector import Counted, JobFilter


def test_a_job_that_is_met_twice_in_a_set_is_counted_once():
    counted = Counted(JobFilter(), once=True)
    counted.add([b"a", b"b", b"a"])
    assert len(counted) == 2
    assert counted.among([b"c", b"a", b"b"]) == [1, 2]


def test_equal_jobs_of_a_queue_are_counted_separately_and_no_more_are_touched():
    counted = Counted(JobFilter(), once=False)
    counted.add([b"a", b"a"])
    assert counted.among([b"a", b"a", b"a"]) == [0, 1]
    counted.record([b"a"])
    assert counted.among([b"a", b"a"]) == [0]


def test_each_job_is_done_refused_or_changed():
    counted = Counted(JobFilter(), once=True)
    counted.add([b"a", b"b", b"c", b"d"])
    counted.record([b"a"], [b"b"], [b"c"])
    assert (counted.done, counted.refused, counted.changed) == (1, 1, 2)
    assert counted.among([b"a", b"b", b"c", b"d"]) == [3]
