"""How well a server does, as it tells itself."""

import time

import pytest

from offsider.storage.redis import Redis, RedisSettings
from offsider.storage.server_health import server_health
from tests.waiting import wait_for


def test_a_healthy_server(pool):
    seen = server_health(pool)
    assert 0 < seen.round_trip_seconds < 1
    assert abs(seen.clock_ahead_seconds) < 1
    assert abs(seen.now - time.time()) < 5
    assert seen.failed_saves == ()
    assert seen.fsync == "everysec"
    assert 0 < seen.clients < seen.max_clients
    assert (seen.evicted, seen.replicas, seen.least_replicas, seen.good_replicas) == (0, 0, 0, None)


def test_a_replica_that_is_asked_for_and_missing(pool, raw_redis):
    raw_redis.config_set("min-replicas-to-write", 1)
    try:
        seen = server_health(pool)
    finally:
        raw_redis.config_set("min-replicas-to-write", 0)
    assert (seen.least_replicas, seen.good_replicas) == (1, 0)


def test_what_may_not_be_asked_is_unknown(pool, raw_redis, redis_url):
    raw_redis.execute_command("ACL", "SETUSER", "shy", "on", ">secret", "~*", "+@all", "-info", "-config")
    shy = Redis(RedisSettings(url=redis_url, username="shy", password="secret"), size=1)
    try:
        seen = server_health(shy)
    finally:
        shy.close()
        raw_redis.execute_command("ACL", "DELUSER", "shy")
    assert (seen.fsync, seen.clients, seen.least_replicas, seen.failed_saves) == (None, None, None, ())
    assert seen.now == pytest.approx(time.time(), abs=5)


def test_a_snapshot_that_could_not_be_written(make_server):
    server = make_server(persist=False, dbfilename="taken")
    (server.folder / "taken").mkdir()
    pool = Redis(RedisSettings(url=server.url), size=1)
    try:
        pool.call("SET", "a", "1")
        pool.call("BGSAVE")
        wait_for(lambda: server_health(pool).failed_saves == ("rdb",))
    finally:
        pool.close()
