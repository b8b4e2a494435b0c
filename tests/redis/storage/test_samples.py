"""A bounded look at what is stored."""

from __future__ import annotations

from offsider.storage.redis import Redis, RedisSettings
from offsider.storage.samples import stored_payloads


def test_the_next_jobs_of_each_place(redis_url, raw_redis):
    raw_redis.lpush("queue:a", b"a1", b"a2", b"a3")
    raw_redis.lpush("queue:b", b"b1")
    raw_redis.zadd("schedule", {b"s1": 1, b"s2": 2, b"s3": 3})
    raw_redis.zadd("retry", {b"r1": 1})
    redis = Redis(RedisSettings(url=redis_url), size=1)
    assert sorted(stored_payloads(redis, ["a", "b", "empty"], limit=2)) == [b"a1", b"a2", b"b1", b"r1", b"s1", b"s2"]


def test_a_key_of_the_wrong_type_is_passed_over(redis_url, raw_redis):
    raw_redis.set("queue:a", "x")
    raw_redis.set("schedule", "x")
    redis = Redis(RedisSettings(url=redis_url), size=1)
    assert stored_payloads(redis, ["a"], limit=2) == []
