"""The counters that Sidekiq's pages show."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from offsider.core.errors import RedisFailure
from offsider.storage import run_counts, stats
from tests.snapshot import snapshot

FIVE_YEARS = 157_680_000
NIGHT = datetime(2026, 11, 21, 23, 59, tzinfo=UTC)


def add(redis, processed: int, failed: int, *, days: int = 0) -> None:
    at = (NIGHT + timedelta(days=days)).timestamp()
    run_counts.add(redis, [], [], at, totals=(processed, failed), wire_version=8)


def test_counts_are_added_in_all_and_for_the_day(pool, raw_redis):
    raw_redis.set("stat:processed", 10)
    add(pool, 3, 1)
    add(pool, 2, 0, days=1)
    assert snapshot(raw_redis) == {
        "stat:processed": b"15",
        "stat:processed:2026-11-21": b"3",
        "stat:processed:2026-11-22": b"2",
        "stat:failed": b"1",
        "stat:failed:2026-11-21": b"1",
    }
    assert stats.read(pool) == (15, 1)


def test_the_counters_of_a_day_live_five_years_and_the_others_for_ever(pool, raw_redis):
    add(pool, 1, 1)
    for name in ("processed", "failed"):
        assert FIVE_YEARS - 10 < raw_redis.ttl(f"stat:{name}:2026-11-21") <= FIVE_YEARS
        assert raw_redis.ttl(f"stat:{name}") == -1


def test_nothing_counted_is_nothing_written(pool, raw_redis):
    add(pool, 0, 0)
    assert snapshot(raw_redis) == {}
    assert stats.read(pool) == (0, 0)


def test_counts_are_written_together_or_not_at_all(proxied, proxy, raw_redis):
    proxy.lose_request(b"INCRBY")
    with pytest.raises(RedisFailure):
        add(proxied, 1, 1)
    assert snapshot(raw_redis) == {}


def test_a_counter_of_the_wrong_type_raises_and_does_not_double_the_others(pool, raw_redis, caplog):
    raw_redis.sadd("stat:failed", "x")
    add(pool, 3, 1)
    assert raw_redis.get("stat:processed") == b"3"
    assert raw_redis.get("stat:failed:2026-11-21") == b"1"
    assert "a count was not written to stat:failed" in caplog.text


def test_days_are_read_in_their_order(pool, raw_redis):
    raw_redis.mset({"stat:failed:2026-11-21": 3, "stat:failed:2026-11-19": "odd"})
    assert stats.days(pool, "failed", ["2026-11-21", "2026-11-20", "2026-11-19"]) == [3, 0, 0]
    assert stats.days(pool, "failed", []) == []


def test_resetting_a_counter_leaves_the_days(pool, raw_redis):
    raw_redis.mset({"stat:failed": 3, "stat:processed": 5, "stat:failed:2026-11-21": 3})
    stats.reset(pool, ["failed"])
    assert snapshot(raw_redis) == {"stat:failed": b"0", "stat:processed": b"5", "stat:failed:2026-11-21": b"3"}


def test_an_empty_overview_takes_one_round_trip(pool, monkeypatch):
    trips = []
    pipeline = type(pool).pipeline
    monkeypatch.setattr(type(pool), "pipeline", lambda *args, **how: trips.append(1) or pipeline(*args, **how))
    assert replace(stats.overview(pool), now=0.0) == stats.Overview(0, 0, 0, 0, 0, {}, ())
    assert len(trips) == 1


def test_an_overview_shows_queues_by_name_and_processes_that_live(pool, raw_redis):
    raw_redis.sadd("queues", "low", "high")
    raw_redis.lpush("queue:low", '{"class":"X","args":[],"enqueued_at":5500}', "b")
    raw_redis.sadd("paused", "high")
    raw_redis.sadd("processes", "alive:1:a", "dead:2:b", "odd:3:c")
    raw_redis.hset("alive:1:a", mapping={"info": "{}", "busy": 3})
    raw_redis.set("odd:3:c", "no hash")
    seen = stats.overview(pool)
    assert seen.processes == {"alive:1:a": stats.ProcessOverview(3, None)}
    assert [(queue.name, queue.size, queue.enqueued_at, queue.paused) for queue in seen.queues] == [
        ("high", 0, None, True),
        ("low", 2, 5.5, False),
    ]
