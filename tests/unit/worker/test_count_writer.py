"""How long threads ran jobs, and could have."""

from __future__ import annotations

import pytest

from offsider.core.series import Load
from offsider.worker.count_writer import ThreadTime


def test_idle_and_busy_threads_both_count():
    load = ThreadTime(100.0)
    assert load.take(110.0, ended_seconds=0.0, under_way_seconds=0.0, threads=5) == Load(0.0, 50.0)
    assert load.take(120.0, ended_seconds=8.0, under_way_seconds=0.0, threads=5) == Load(8.0, 50.0)


def test_a_long_run_counts_while_it_runs_and_only_once():
    load = ThreadTime(0.0)
    reported = [
        load.take(10.0, ended_seconds=0.0, under_way_seconds=6.0, threads=1),
        load.take(20.0, ended_seconds=0.0, under_way_seconds=16.0, threads=1),
        load.take(30.0, ended_seconds=20.0, under_way_seconds=2.0, threads=1),
    ]
    assert [each.run_seconds for each in reported] == [6.0, 10.0, 6.0]
    assert sum(each.run_seconds for each in reported) == pytest.approx(22.0)


def test_quiet_threads_count_while_they_run_jobs():
    load = ThreadTime(0.0)
    assert load.take(10.0, ended_seconds=1.0, under_way_seconds=2.0, threads=5, quiet=True) == Load(3.0, 50.0)
    assert load.take(20.0, ended_seconds=0.0, under_way_seconds=9.0, threads=5, quiet=True) == Load(7.0, 7.0)
    assert load.take(30.0, ended_seconds=9.5, under_way_seconds=0.0, threads=5, quiet=True) == Load(0.5, 0.5)


def test_an_endless_interrupted_run_makes_no_negative_time():
    load = ThreadTime(0.0)
    load.take(10.0, ended_seconds=0.0, under_way_seconds=10.0, threads=1)
    assert load.take(20.0, ended_seconds=0.0, under_way_seconds=0.0, threads=0) == Load(0.0, 0.0)


def test_no_elapsed_time_means_no_thread_time():
    assert ThreadTime(10.0).take(9.0, ended_seconds=1.0, under_way_seconds=0.0, threads=5) == Load(1.0, 0.0)


def test_a_load_that_could_not_be_written_is_added_to_the_next_one():
    load = ThreadTime(0.0)
    load.restore(load.take(10.0, ended_seconds=3.0, under_way_seconds=1.0, threads=2))
    assert load.take(20.0, ended_seconds=2.0, under_way_seconds=0.0, threads=2) == Load(5.0, 40.0)
    assert load.take(20.0, ended_seconds=0.0, under_way_seconds=0.0, threads=2) == Load()
