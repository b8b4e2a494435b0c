"""Server information for people."""

from __future__ import annotations

import pytest

from offsider.client import Client
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.inspector import ServerInfo
from tests.waiting import wait_for


def test_server_info_has_kind_version_and_load(config, redis_url, raw_redis):
    info = ServerInfo.read(config)
    valkey = "valkey_version" in raw_redis.info("server")
    assert info.store == ("valkey" if valkey else "redis")
    assert info.version == raw_redis.info("server")["valkey_version" if valkey else "redis_version"]
    assert (info.role, info.policy) == ("master", "noeviction")
    assert info.uptime_days == 0
    assert 0 < info.connected_clients < info.max_clients
    assert 0 < info.used_memory_bytes <= info.used_memory_peak_bytes
    assert (info.max_memory_bytes, info.evicted, info.failed_saves) == (0, 0, ())
    assert (info.fsync, info.least_replicas, info.good_replicas) == ("everysec", 0, None)
    assert info.clock_drift_seconds == pytest.approx(0, abs=5)
    assert 0 < info.round_trip_seconds < 5
    assert info.url == redis_url.partition("?")[0]


@pytest.mark.parametrize(
    "aof, save, shown", [("yes", "", "aof"), ("no", "3600 1", "rdb"), ("yes", "3600 1", "aof, rdb"), ("no", "", "none")]
)
def test_server_info_has_the_persistence_settings(make_server, aof, save, shown):
    server = make_server(appendonly=aof, save=save or '""', persist=False)
    config = Config()
    config.redis.url = server.url
    assert ServerInfo.read(config).persistence == shown


def test_values_without_permission_are_unknown(config, raw_redis):
    raw_redis.execute_command("ACL", "SETUSER", "looker", "on", ">secret", "~*", "+@all", "-info", "-config")
    try:
        config.redis.username, config.redis.password = "looker", "secret"
        info = ServerInfo.read(config)
    finally:
        raw_redis.execute_command("ACL", "DELUSER", "looker")
    assert (info.persistence, info.policy, info.fsync, info.role) == ("", "", "", "master")
    assert info.uptime_days is info.used_memory_bytes is info.connected_clients is info.least_replicas is None
    assert (info.failed_saves, info.forbidden) == ((), ("INFO", "CONFIG"))


def test_a_replica_that_is_asked_for_and_missing(config, raw_redis, replicas):
    raw_redis.config_set("min-replicas-to-write", replicas + 1)
    try:
        info = ServerInfo.read(config)
    finally:
        raw_redis.config_set("min-replicas-to-write", 0)
    assert (info.least_replicas, info.good_replicas) == (replicas + 1, replicas)


def test_a_snapshot_that_could_not_be_written(make_server, config):
    server = make_server(persist=False, dbfilename="taken")
    (server.folder / "taken").mkdir()
    config.redis.url = server.url
    Client(config).push({"class": "X", "args": []})
    Installation.of(config).redis.call("BGSAVE")
    wait_for(lambda: ServerInfo.read(config).failed_saves == ("rdb",))


def test_the_default_configuration_is_that_of_this_process(default_config):
    assert ServerInfo.read().role == "master"
