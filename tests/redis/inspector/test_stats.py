"""The numbers of a server: what Sidekiq's first page shows."""

from __future__ import annotations

from offsider.client import Client
from offsider.inspector import Stats
from offsider.wiring.default import set_default_config
from tests.redis.inspector.payloads import job


def test_an_empty_server_has_zeros(config):
    assert Stats.read(config) == Stats(0, 0, 0, 0, 0, 0, 0, {})


def test_every_number_is_read(config, raw_redis):
    client = Client(config)
    client.push_bulk({"class": "X", "args": [[1], [2]], "queue": "low"})
    client.push({"class": "X", "args": []})
    client.push({"class": "X", "args": [], "at": 4_102_444_800})
    raw_redis.zadd("retry", {job(1): 1, job(2): 2})
    raw_redis.zadd("dead", {job(3): 1, job(4): 2, job(5): 3})
    raw_redis.mset({"stat:processed": 1234, "stat:failed": 56})
    raw_redis.sadd("processes", "one:1:ab", "two:2:cd")
    assert Stats.read(config) == Stats(
        processed=1234,
        failed=56,
        enqueued=3,
        scheduled=1,
        retries=2,
        dead=3,
        processes=2,
        queues={"default": 1, "low": 2},
    )


def test_without_a_configuration_it_is_this_processes(config, raw_redis):
    raw_redis.set("stat:processed", 7)
    previous = set_default_config(config)
    try:
        assert Stats.read().processed == 7
    finally:
        set_default_config(previous)
