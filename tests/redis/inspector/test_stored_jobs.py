"""Stored jobs of some classes are counted place by place, and those that fail a test among them."""

from __future__ import annotations

import pytest

from offsider import Config
from offsider.core.payload import encode
from offsider.inspector.stored_jobs import StoredJobs, stored_jobs


@pytest.fixture
def config(redis_url) -> Config:
    config = Config()
    config.redis.url = redis_url
    yield config
    config.close()


def job(name: str, *args: object, **fields: object) -> bytes:
    return encode({"class": name, "args": list(args), "jid": str(args), **fields})


def test_every_place_is_looked_at_and_only_these_classes_are_counted(config, raw_redis):
    raw_redis.sadd("queues", "low", "high")
    raw_redis.lpush("queue:low", job("A", 1), job("A", 1, 2), job("B"), b"no job")
    raw_redis.lpush("queue:high", *(job("A", number) for number in range(120)))
    raw_redis.zadd("schedule", {job("A", 7, 8): 9e9, job("C"): 9e9})
    raw_redis.zadd("retry", {job("A", 9): 1})
    raw_redis.zadd("dead", {job("A", 1, 2, 3): 1, job("C", 1): 1})
    found = stored_jobs(config, {"A": lambda record: len(record.args) == 1, "C": lambda record: None, "D": bool})
    assert found == {
        "A": StoredJobs({"queue:high": 120, "queue:low": 2, "schedule": 1, "retry": 1, "dead": 1}, 2),
        "C": StoredJobs({}, 0),
        "D": StoredJobs({}, 0),
    }
    assert (found["A"].to_run, found["C"].to_run) == (124, 0)


def test_nothing_is_stored(config):
    assert stored_jobs(config, {"A": bool}) == {"A": StoredJobs({}, 0)}
