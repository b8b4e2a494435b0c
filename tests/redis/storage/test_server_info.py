"""The health of a server, as it reports it."""

from offsider.storage.redis import Redis, RedisSettings
from offsider.storage.server_info import server_info
from tests.waiting import wait_for


def test_a_healthy_server(pool):
    info = server_info(pool)
    assert info.failed_saves == ()
    assert info.fsync == "everysec"
    assert 0 < info.connected_clients < info.max_clients
    assert (info.evicted, info.least_replicas, info.good_replicas) == (0, 0, None)


def test_a_replica_that_is_asked_for_and_missing(pool, raw_redis, replicas):
    raw_redis.config_set("min-replicas-to-write", replicas + 1)
    try:
        info = server_info(pool)
    finally:
        raw_redis.config_set("min-replicas-to-write", 0)
    assert (info.least_replicas, info.good_replicas) == (replicas + 1, replicas)


def test_values_without_permission_are_unknown(pool, raw_redis, redis_url):
    raw_redis.execute_command("ACL", "SETUSER", "shy", "on", ">secret", "~*", "+@all", "-info", "-config")
    shy = Redis(RedisSettings(url=redis_url, username="shy", password="secret"), size=1)
    try:
        info = server_info(shy)
    finally:
        shy.close()
        raw_redis.execute_command("ACL", "DELUSER", "shy")
    assert (info.fsync, info.connected_clients, info.least_replicas, info.failed_saves) == (None, None, None, ())
    assert info.forbidden == ("INFO", "CONFIG")


def test_a_snapshot_that_could_not_be_written(make_server):
    server = make_server(persist=False, dbfilename="taken")
    (server.folder / "taken").mkdir()
    pool = Redis(RedisSettings(url=server.url), size=1)
    try:
        pool.call("SET", "a", "1")
        pool.call("BGSAVE")
        wait_for(lambda: server_info(pool).failed_saves == ("rdb",))
    finally:
        pool.close()
