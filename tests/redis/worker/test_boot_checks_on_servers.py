"""The boot checks on real servers of every unusable or risky sort."""

from __future__ import annotations

import json

import pytest
import redis as redis_py

from offsider.config.config import Config
from offsider.core.errors import ConfigurationError, RedisUnavailable, UnsupportedServer
from offsider.jobs import registry
from offsider.jobs.function import job
from offsider.worker.boot_checks import check_boot


def config_for(url, **redis):
    config = Config()
    config.redis.url = url
    for key, value in redis.items():
        setattr(config.redis, key, value)
    return config


def test_a_good_server_is_passed_in_silence(redis_url):
    assert check_boot(config_for(redis_url)) == []


def test_an_unreachable_server(tmp_path):
    with pytest.raises(RedisUnavailable, match="cannot be reached"):
        check_boot(config_for(f"unix://{tmp_path}/nothing.sock"))


def test_a_wrong_and_a_missing_password(make_server):
    server = make_server(port=0, requirepass="hunter2")
    for config in (config_for(server.url), config_for(server.url, password="hunter3")):
        with pytest.raises(ConfigurationError, match="refused the login") as caught:
            check_boot(config)
        assert "hunter" not in str(caught.value)
    assert check_boot(config_for(server.url, password="hunter2")) == []


def test_a_replica(make_server):
    master = make_server(port=0)
    port = master.url.rpartition(":")[2].partition("/")[0]
    replica = make_server(port=0, replicaof=f"127.0.0.1 {port}")
    with pytest.raises(UnsupportedServer, match="read-only replica"):
        check_boot(config_for(replica.url))


def test_a_cluster_by_its_own_url_is_accepted_and_logged(cluster, caplog):
    caplog.set_level("INFO", logger="offsider")
    warnings = check_boot(config_for(cluster.url))
    assert not any("Cluster" in warning for warning in warnings)
    assert "Cluster: hash tag {offsider}, slot 8428, primary 127.0.0.1" in caplog.text
    assert "Ruby's Sidekiq cannot read keys with a prefix" in caplog.text


def test_eviction_and_no_persistence(make_server):
    server = make_server(persist=False, save='""', maxmemory_policy="allkeys-lru")
    policy, persistence = check_boot(config_for(server.url))
    assert "maxmemory-policy is allkeys-lru" in policy
    assert "neither AOF nor RDB" in persistence


def test_a_full_server_is_a_warning_because_workers_make_room(make_server):
    server = make_server(maxmemory="500kb")
    [warning] = check_boot(config_for(server.url))
    assert "out of memory" in warning


@pytest.mark.parametrize("kind", ["redis7", "valkey"])
def test_a_user_with_few_commands_boots_with_unknown_values(make_server, kind):
    server = make_server(kind=kind, port=0)
    with redis_py.Redis.from_url(server.url) as client:
        client.execute_command("ACL", "SETUSER", "minimal", "on", ">pw", "~*", "&*", "+@all", "-@dangerous", "-time")
    [warning] = check_boot(config_for(server.url, username="minimal", password="pw"))
    assert "this user may not call INFO, CONFIG" in warning
    assert "not checked: maxmemory-policy, AOF, RDB" in warning


def test_a_user_without_scripts_is_refused(make_server):
    server = make_server(port=0)
    with redis_py.Redis.from_url(server.url) as client:
        client.execute_command("ACL", "SETUSER", "noscript", "on", ">pw", "~*", "+@all", "-@scripting")
    with pytest.raises(UnsupportedServer, match="does not run Lua scripts"):
        check_boot(config_for(server.url, username="noscript", password="pw"))


def test_unregistered_names_of_stored_jobs_are_listed(redis_url, raw_redis):
    raw_redis.lpush("queue:default", b'{"class":"Gone","args":[]}', b'{"class":"Here","args":[]}', b"not json")
    raw_redis.zadd("retry", {b'{"class":"Renamed","args":[]}': 1})
    with registry.isolated():
        job(name="Here")(lambda: None)
        [warning] = check_boot(config_for(redis_url))
    assert "stored jobs have unregistered names: Gone, Renamed: this worker cannot run them" in warning


def test_an_older_ruby_process_needs_another_wire_version(redis_url, raw_redis):
    for identity, stored_info in (
        ("ruby:1:ab", {"version": "7.3.10"}),
        ("ruby:2:cd", {"version": "8.1.7"}),
        ("ours:3:ef", {}),
    ):
        raw_redis.sadd("processes", identity)
        raw_redis.hset(identity, "info", json.dumps(stored_info))
    raw_redis.hset("offsider:owners", "ours:3:ef", "{}")
    [warning] = check_boot(config_for(redis_url))
    assert "ruby:1:ab is Sidekiq 7.3.10, but wire_version is 8" in warning
    assert "set redis.wire_version = 7" in warning
    assert check_boot(config_for(redis_url, wire_version=7)) == []


def test_ruby_processes_that_are_all_newer_are_warned_of_once(redis_url, raw_redis):
    for identity, version in (("ruby:1:ab", "8.1.7"), ("ruby:2:cd", "8.0.0"), ("ruby:3:ef", "no version")):
        raw_redis.sadd("processes", identity)
        raw_redis.hset(identity, "info", json.dumps({"version": version}))
    [warning] = check_boot(config_for(redis_url, wire_version=6))
    assert "wire_version is 6, but all Ruby processes are Sidekiq 8 or newer" in warning
    assert warning.endswith("set redis.wire_version = 8")
    assert check_boot(config_for(redis_url, wire_version=8)) == []


def test_stored_data_never_prevents_a_start(redis_url, raw_redis):
    raw_redis.set("processes", "of the wrong type")
    [warning] = check_boot(config_for(redis_url))
    assert "cannot check the stored jobs" in warning
