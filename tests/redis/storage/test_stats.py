"""The counters that Sidekiq's pages show."""

from datetime import UTC, datetime, timedelta

import pytest

from offsider.core.errors import RedisFailure
from offsider.storage import run_counts
from tests.snapshot import snapshot

FIVE_YEARS = 157_680_000
NIGHT = datetime(2026, 11, 21, 23, 59, tzinfo=UTC)


def add(redis, processed: int, failed: int, *, days: int = 0) -> None:
    at = (NIGHT + timedelta(days=days)).timestamp()
    run_counts.add(redis, [], at, totals=(processed, failed), wire_version=8)


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


def test_the_counters_of_a_day_live_five_years_and_the_others_for_ever(pool, raw_redis):
    add(pool, 1, 1)
    for name in ("processed", "failed"):
        assert FIVE_YEARS - 10 < raw_redis.ttl(f"stat:{name}:2026-11-21") <= FIVE_YEARS
        assert raw_redis.ttl(f"stat:{name}") == -1


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
