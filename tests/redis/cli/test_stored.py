"""Every place where a job can lie is looked at."""

import json

import pytest

from offsider.cli.demo import stored
from offsider.wiring.config import Config


@pytest.fixture
def config(redis_url):
    config = Config()
    config.redis.url = redis_url
    return config


def raw(jid: str) -> str:
    return json.dumps({"class": "some_job", "args": [], "jid": jid, "queue": "texts"})


def test_jobs_are_found_in_every_place(config, raw_redis):
    raw_redis.sadd("queues", "texts")
    raw_redis.lpush("queue:texts", raw("queued"), "no-job:1")
    raw_redis.zadd("schedule", {raw("scheduled"): 1})
    raw_redis.zadd("retry", {raw("failed"): 1})
    raw_redis.zadd("dead", {raw("dead"): 1, "no-job:2": 2})
    raw_redis.lpush("offsider:working:host:1:abc:default:texts", raw("running"))

    assert stored.other_keys(config) == {"queued", "no-job:1", "scheduled", "failed", "running"}
    assert stored.dead_keys(config) == {"dead", "no-job:2"}


def test_an_empty_server_stores_nothing(config, raw_redis):
    assert stored.other_keys(config) == stored.dead_keys(config) == set()
