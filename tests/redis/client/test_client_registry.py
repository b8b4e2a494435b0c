"""A client shows at its first push, and then now and then, by which rules it routes."""

import sys

import pytest

from offsider.client import client_registry
from offsider.client.client_registry import LIFE_SECONDS, SeenClient, note_command, seen
from offsider.config.default import set_default_config, set_worker_config
from offsider.storage.redis import Redis, RedisSettings
from tests.redis.client.clients import config_for

PUSH = {"class": "HardJob", "args": [1]}


@pytest.fixture
def host(monkeypatch):
    monkeypatch.setenv("DYNO", "web.1")
    monkeypatch.setattr(sys, "argv", ["/usr/bin/gunicorn"])
    return "web.1"


@pytest.fixture
def minutes(monkeypatch):
    """A clock that is set by hand; seconds of it."""
    now = [1000.0]
    monkeypatch.setattr(client_registry.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def pool(redis_url):
    return Redis(RedisSettings(url=redis_url), size=1)


def test_the_first_push_registers_host_program_and_rules(make_client, redis_url, pool, host):
    config = config_for(redis_url)
    make_client(config).push(PUSH)
    assert seen(pool) == [SeenClient(host, "gunicorn", "none")]
    config.routing.rules = [["*", "default"]]
    make_client(config).push_bulk({"class": "X", "args": [[1], [2]]})
    assert SeenClient(host, "gunicorn", config.routing.rules.digest) in seen(pool)


def test_a_push_within_the_same_minute_registers_nothing(redis_url, raw_redis, minutes, host):
    from offsider.client import Client

    client = Client(config_for(redis_url))
    client.push(PUSH)
    raw_redis.delete("offsider:clients")
    minutes[0] += 59
    client.push(PUSH)
    assert not raw_redis.exists("offsider:clients")
    minutes[0] += 2
    client.push(PUSH)
    assert raw_redis.exists("offsider:clients")
    assert raw_redis.llen("queue:default") == 3
    client.close()


def test_a_worker_calls_itself_one(make_client, redis_url, pool, host):
    config = config_for(redis_url)
    before = set_default_config(None)
    try:
        set_worker_config(config)
        make_client(config).push(PUSH)
    finally:
        set_worker_config(config_for(redis_url))
        set_default_config(before)
    assert [client.role for client in seen(pool)] == ["worker"]


def test_a_refused_registration_does_not_refuse_the_job(make_client, redis_url, raw_redis):
    raw_redis.set("offsider:clients", "not a sorted set")
    assert make_client(config_for(redis_url)).push(PUSH)
    assert raw_redis.llen("queue:default") == 1


GUNICORN = SeenClient("web-1", "gunicorn", "abc")
CRON = SeenClient("fe80::1", "cron.py", "none")


def note(pool, client):
    assert pool.pipeline([note_command(pool.keys, client)]) == [None]


def grow_older(raw_redis, name, seconds):
    raw_redis.zincrby("offsider:clients", -seconds, name)


def test_each_client_is_listed_once(pool):
    for _ in range(3):
        note(pool, GUNICORN)
    note(pool, CRON)
    assert seen(pool) == [CRON, GUNICORN]


def test_a_silent_client_is_no_longer_listed(pool, raw_redis):
    note(pool, GUNICORN)
    note(pool, CRON)
    grow_older(raw_redis, "web-1:gunicorn:abc", LIFE_SECONDS + 10)
    assert seen(pool) == [CRON]
    assert 0 < raw_redis.ttl("offsider:clients") <= LIFE_SECONDS


def test_names_do_not_pile_up(pool, raw_redis):
    note(pool, GUNICORN)
    grow_older(raw_redis, "web-1:gunicorn:abc", LIFE_SECONDS + 10)
    note(pool, CRON)
    assert raw_redis.zcard("offsider:clients") == 1


def test_odd_names_and_invalid_entries_hide_no_client(pool, raw_redis):
    now = raw_redis.time()[0]
    note(pool, SeenClient("web-1", "a:b", "abc"))
    raw_redis.zadd("offsider:clients", {b"\xff:role:abc": now, "junk": now})
    assert seen(pool) == [SeenClient("web-1", "a_b", "abc"), SeenClient("\N{REPLACEMENT CHARACTER}", "role", "abc")]
