"""SLO targets and labels of classes; how long threads ran jobs, and could have."""

from __future__ import annotations

import math

import pytest

from offsider import job
from offsider.config.config import Config
from offsider.core.series import Load, Target
from offsider.worker.run_writer import ThreadTime, labels_of, target_of


def declare(**options) -> str:
    @job(name=("Declared", "Older"), **options)
    def declared() -> None: ...

    return declared.declared.name


def test_the_target_follows_from_the_urgency():
    config = Config()
    config.slo.low_queue_seconds = 20
    declare(urgency="high")
    for name, target in {
        "Declared": Target(10.0, 10.0),
        "Older": Target(10.0, 10.0),
        "No": Target(20.0, 300.0),
    }.items():
        assert target_of(config, name) == target


def test_a_throttled_job_may_wait_for_ever():
    assert target_of(Config(), declare(urgency="throttled")) == Target(math.inf, 300.0)


def test_labels_come_from_the_job_and_the_worker():
    config = Config()
    assert labels_of(config, declare(resource_boundary="none")) == {"urgency": "low"}
    config.worker.shard = "urgent"
    name = declare(urgency="high", feature_category="post", resource_boundary="cpu")
    expected = {"urgency": "high", "feature_category": "post", "boundary": "cpu", "shard": "urgent"}
    assert labels_of(config, name) == expected


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
