"""Server information for people."""

from __future__ import annotations

import pytest

from offsider.config.config import Config
from offsider.config.default import set_default_config
from offsider.inspector import ServerInfo


def test_server_info_has_kind_version_and_load(config, redis_url, raw_redis):
    info = ServerInfo.read(config)
    valkey = "valkey_version" in raw_redis.info("server")
    assert info.store == ("valkey" if valkey else "redis")
    assert info.version == raw_redis.info("server")["valkey_version" if valkey else "redis_version"]
    assert (info.role, info.policy) == ("master", "noeviction")
    assert info.uptime_days == 0
    assert info.connected_clients is not None
    assert info.connected_clients >= 1
    assert info.used_memory_peak_bytes is not None
    assert info.used_memory_bytes is not None
    assert info.used_memory_bytes > 0
    assert info.max_memory_bytes == 0
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
    assert (info.persistence, info.policy, info.role) == ("", "", "master")
    assert info.uptime_days is info.used_memory_bytes is info.connected_clients is None


def test_the_default_configuration_is_that_of_this_process(config):
    previous = set_default_config(config)
    try:
        assert ServerInfo.read().role == "master"
    finally:
        set_default_config(previous)
