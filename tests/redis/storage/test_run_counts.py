"""Run counts are written together, or not at all, and read back."""

from __future__ import annotations

import logging

import pytest

from offsider.core.errors import QueueFull
from offsider.core.series import Load, Series
from offsider.storage import run_counts
from tests.runs import counts

NOW = 1_800_000_000.0  # a whole hour since the epoch
MAIL = {"class": "Mail", "queue": "q"}


def write(pool, *series: Series, at: float = NOW) -> None:
    run_counts.add(pool, series, at, wire_version=8)


def test_metrics_and_sums_are_written_in_one_transaction(pool, raw_redis):
    run_counts.add(pool, [counts(seconds=[0.0])], NOW, wire_version=8)
    assert {key.split(b"|")[0].split(b":")[0] for key in raw_redis.scan_iter()} == {b"j", b"h", b"offsider"}


def test_a_full_server_writes_nothing(pool, raw_redis):
    raw_redis.config_set("maxmemory", 1)
    try:
        with pytest.raises(QueueFull):
            run_counts.add(pool, [counts(seconds=[0.0])], NOW, wire_version=8)
    finally:
        raw_redis.config_set("maxmemory", 0)
    assert raw_redis.keys() == []


def test_a_refused_count_is_reported_and_the_others_are_written(pool, raw_redis, caplog):
    raw_redis.set("j|270115|8:00", "a string")
    with caplog.at_level(logging.ERROR):
        run_counts.add(pool, [counts()], NOW, wire_version=8)
    assert f"a count was not written to {pool.keys.prefix}j|270115|8:00" in caplog.text
    assert raw_redis.hgetall("j|270115|8:0") == {b"A|ms": b"5", b"A|p": b"1"}


# ---------------------------------------------------------------------------------------- totals
def test_every_sum_of_a_series_is_read_back(pool):
    whole = Series(MAIL, processed=3, failed=2, retried=1, run_seconds=4.5, cpu_seconds=0.25, queue_seconds=9.0)
    whole.run_buckets[:2], whole.queue_buckets[4], whole.satisfied = [2, 1], 3, 1
    write(pool, whole)
    assert run_counts.totals(pool) == [whole]
    write(pool, whole, Series({"class": "B", "queue": "q"}, processed=5))
    other, twice = run_counts.totals(pool)
    assert (twice.processed, twice.run_seconds, twice.run_buckets[0], twice.queue_buckets[4]) == (6, 9.0, 4, 6)
    assert other.processed == 5


# ------------------------------------------------------------------------------------------ SLOs
def promised(name: str = "Mail", queue: str = "q", **labels: str) -> Series:
    return Series({"class": name, "queue": queue, **labels}, processed=10, failed=1, satisfied=7)


def total(pool, window: str) -> int:
    return sum(scores[window][0] for _, scores in run_counts.scores(pool, NOW))


def test_a_class_is_scored_by_its_characteristics_and_not_by_queue_or_the_labels_of_extensions(pool):
    characteristics = {"urgency": "high", "feature_category": "post", "boundary": "cpu", "shard": "urgent"}
    write(
        pool,
        promised(**characteristics, tenant="acme"),
        promised(queue="other", **characteristics),
        promised(urgency="low"),
    )
    found = sorted(run_counts.scores(pool, NOW), key=lambda each: each[1]["1h"])
    assert found == [
        ({"class": "Mail", "urgency": "low"}, dict.fromkeys(("1h", "6h", "3d"), (10, 1, 2))),
        ({"class": "Mail", **characteristics}, dict.fromkeys(("1h", "6h", "3d"), (20, 2, 4))),
    ]


def test_a_window_contains_only_its_own_counts(pool):
    for minutes in (1, 45, 70, 350, 400, 4000, 5000):
        write(pool, promised(), at=NOW - minutes * 60)
    assert {window: total(pool, window) for window in ("1h", "6h", "3d")} == {"1h": 20, "6h": 40, "3d": 60}


# ---------------------------------------------------------------------------------------- shards
def work(pool, shard: str, run: float, threads: float, at: float = NOW) -> None:
    run_counts.add(pool, [], at, wire_version=8, load=Load(run, threads), shard=shard)


def test_the_work_of_a_shard_is_summed_over_its_processes(pool):
    work(pool, "urgent", 1.5, 10.0)
    work(pool, "urgent", 0.25, 10.0)
    work(pool, "", 3.0, 5.0)
    assert run_counts.load_totals(pool) == {"urgent": Load(1.75, 20.0), "": Load(3.0, 5.0)}


def test_minutes_of_a_shard_are_read_between_two_times(pool):
    for at in (NOW - 7200, NOW - 61, NOW - 60, NOW - 5, NOW + 1):
        work(pool, "a|b", 1.0, 2.0, at)
    assert run_counts.load_minutes(pool, NOW - 150, NOW + 30) == {
        "a|b": [Load(), Load(1.0, 2.0), Load(2.0, 4.0), Load(1.0, 2.0)]
    }
    assert run_counts.load_minutes(pool, NOW - 7200, NOW)["a|b"][::60] == [Load(1.0, 2.0), Load(), Load(1.0, 2.0)]


def test_idle_threads_are_recorded_and_zero_threads_are_not(pool, raw_redis):
    work(pool, "", 0.0, 0.0)
    assert raw_redis.keys() == []
    work(pool, "", 0.0, 50.0)
    assert run_counts.load_totals(pool) == {"": Load(0.0, 50.0)}
