"""Sums of all workers that only grow."""

from __future__ import annotations

from offsider.core.series import Series
from offsider.storage import fleet_metrics, run_counts
from offsider.storage.fleet_metrics import KEEP_SECONDS

NOW = 1_800_000_000.0


def series(name: str = "A", **counts: object) -> Series:
    return Series({"queue": "q", "class": name}, **counts)  # type: ignore[arg-type]


def write(pool, *each: Series, now: float = NOW) -> None:
    run_counts.add(pool, [], each, now, wire_version=8)


def test_every_sum_of_a_series_comes_back(pool):
    whole = series("A", processed=3, failed=2, retried=1, run_seconds=4.5, cpu_seconds=0.25, queue_seconds=9.0)
    whole.run_buckets[:2], whole.queue_buckets[4] = [2, 1], 3
    write(pool, whole)
    assert fleet_metrics.read(pool) == [whole]
    write(pool, whole, series("B", processed=5))
    twice, other = sorted(fleet_metrics.read(pool), key=lambda one: one.labels["class"])
    assert (twice.processed, twice.run_seconds, twice.run_buckets[0], twice.queue_buckets[4]) == (6, 9.0, 4, 6)
    assert other.processed == 5


def test_labels_are_the_same_in_any_order(pool):
    write(pool, Series({"b": "2", "a": "1"}, processed=1), Series({"a": "1", "b": "2"}, processed=1))
    assert [one.processed for one in fleet_metrics.read(pool)] == [2]


def test_what_was_not_added_to_for_long_is_dropped(pool, raw_redis):
    write(pool, series("Old", processed=1), now=NOW - KEEP_SECONDS - 1)
    write(pool, series("New", processed=1))
    assert [one.labels["class"] for one in fleet_metrics.read(pool)] == ["New"]
    assert all(0 < raw_redis.ttl(key) <= KEEP_SECONDS for key in raw_redis.keys("offsider:series:*"))


def test_there_are_no_more_than_a_monitoring_system_can_stand(pool, monkeypatch):
    monkeypatch.setattr(fleet_metrics, "MOST", 2)
    for number in range(4):
        write(pool, series(f"A{number}", processed=1), now=NOW + number)
    assert sorted(one.labels["class"] for one in fleet_metrics.read(pool)) == ["A2", "A3"]


def test_a_series_whose_sums_have_expired_is_left_out(pool, raw_redis):
    write(pool, series("A", processed=1), series("B", processed=1))
    raw_redis.delete(*[key for key in raw_redis.keys("offsider:series:*") if b'"A"' in key])
    assert [one.labels["class"] for one in fleet_metrics.read(pool)] == ["B"]


def test_one_class_can_be_asked_for(pool):
    write(pool, series("A", processed=1), series("B", processed=2), Series({}, processed=3))
    assert [one.processed for one in fleet_metrics.read(pool, "B")] == [2]
    assert fleet_metrics.read(pool, "C") == []


def test_nothing_is_read_of_nothing(pool):
    assert fleet_metrics.read(pool) == []
