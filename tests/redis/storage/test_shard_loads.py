"""How busy the threads of shards are."""

from __future__ import annotations

from offsider.storage import run_counts, shard_loads
from offsider.storage.shard_loads import HOURS, KEEP_SECONDS, Load

NOW = 1_800_000_000.0


def write(pool, shard: str, run: float, threads: float, at: float = NOW) -> None:
    run_counts.add(pool, [], [], at, wire_version=8, load=Load(run, threads), shard=shard)


def test_the_work_of_a_shard_is_summed_over_its_processes(pool):
    write(pool, "urgent", 1.5, 10.0)
    write(pool, "urgent", 0.25, 10.0)
    write(pool, "", 3.0, 5.0)
    assert shard_loads.totals(pool) == {"urgent": Load(1.75, 20.0), "": Load(3.0, 5.0)}


def test_minutes_are_told_between_two_moments(pool):
    for at in (NOW - 7200, NOW - 61, NOW - 60, NOW - 5, NOW + 1):
        write(pool, "a|b", 1.0, 2.0, at)
    assert shard_loads.minutes(pool, NOW - 90, NOW + 30) == {
        "a|b": {NOW - 120: Load(1.0, 2.0), NOW - 60: Load(2.0, 4.0), NOW: Load(1.0, 2.0)}
    }
    assert len(shard_loads.minutes(pool, NOW - 8 * 3600, NOW)["a|b"]) == 4


def test_idle_threads_are_there_all_the_same(pool):
    write(pool, "", 0.0, 50.0)
    assert shard_loads.totals(pool) == {"": Load(0.0, 50.0)}


def test_no_threads_leave_no_trace(pool, raw_redis):
    write(pool, "", 0.0, 0.0)
    assert raw_redis.keys() == []


def test_sums_and_minutes_are_kept_for_their_time(pool, raw_redis):
    write(pool, "", 1.0, 2.0)
    assert 0 < raw_redis.ttl("offsider:load") <= KEEP_SECONDS
    assert 0 < raw_redis.ttl(f"offsider:load:{int(NOW // 3600)}") <= HOURS * 3600


def test_what_others_wrote_there_is_passed_over(pool, raw_redis):
    for field, value in (("run|", "much"), ("run|", "inf"), ("odd|", "1"), ("run", "nan")):
        raw_redis.hset("offsider:load", field, value)
        assert shard_loads.totals(pool) == {}
    hour = f"offsider:load:{int(NOW // 3600)}"
    for field in ("x|run|", "999|run|", "0|walk|", "run"):
        raw_redis.hset(hour, field, "1")
    raw_redis.set(f"offsider:load:{int(NOW // 3600) - 1}", "no hash")
    assert shard_loads.minutes(pool, NOW - 3600, NOW) in ({}, {"": {}})
