"""Memory by family of keys."""

from __future__ import annotations

import pytest

from offsider.storage import keyspace
from offsider.storage.cluster import DEFAULT_PREFIX

SHOP = f"{DEFAULT_PREFIX}shop:"


@pytest.fixture
def redis(make_pool, redis_url):
    return make_pool(url=redis_url, key_prefix=SHOP)


def test_keys_are_counted_by_their_family(redis, raw_redis):
    for key in (
        *("offsider:limiter:{bucket:a}", "offsider:limiter:{bucket:b}", "offsider:limiters", "queue:default", "queues"),
        *("stat:processed", "stat:failed:2026-11-23", "b-abc", "b-abc-jids", "j|261123|8:1", "retry", "customer"),
        *(
            "vm:411:0123456789ab",
            "vm:411:0123456789ab:work",
            "offsider:errors",
            "offsider:errors:a1",
            "retry-later",
        ),
        *("offsider:results:job:a", "offsider:results:done:Report", "offsider:results:classes"),
        *("offsider:series:release_totals", 'offsider:series:release_totals:recent:0:{"class":"A"}', "offsider:runs"),
    ):
        raw_redis.set(SHOP + key, "x")
    raw_redis.set("queue:of another application", "x")
    found, complete = keyspace.by_family(redis, 10.0)
    assert complete
    assert {family.name: family.count for family in found} == {
        "offsider:limiter:*": 2,
        "offsider:limiters": 1,
        "offsider:errors": 1,
        "offsider:errors:*": 1,
        "offsider:results:job:*": 1,
        "offsider:results:done:*": 1,
        "offsider:results:classes": 1,
        "offsider:series:release_totals": 1,
        "offsider:series:release_totals:*": 1,
        "offsider:runs": 1,
        "<identity>*": 2,
        "queue:*": 1,
        "queues": 1,
        "stat:*": 2,
        "b-*": 2,
        "j|*": 1,
        "retry": 1,
        keyspace.OTHER: 3,
    }


def test_the_memory_of_a_family_is_extrapolated_from_a_sample(redis, raw_redis, monkeypatch):
    for number in range(10):
        raw_redis.set(f"{SHOP}queue:{number}", "x" * 10_000)
    raw_redis.set(f"{SHOP}retry", "x")
    monkeypatch.setattr(keyspace, "MAX_MEASURED", 4)
    (queues, retry), _ = keyspace.by_family(redis, 10.0)
    assert (queues.name, queues.measured, retry.name, retry.measured) == ("queue:*", 4, "retry", 1)
    assert 100_000 <= queues.estimated_bytes <= 200_000


def test_a_scan_ends_after_its_time_and_keys_may_expire(redis, raw_redis, monkeypatch):
    raw_redis.mset({f"{SHOP}queue:{number}": "x" for number in range(50)})
    monkeypatch.setattr(keyspace, "_COUNT", 1)
    found, complete = keyspace.by_family(redis, 0.0)
    assert not complete
    assert sum(family.count for family in found) < 50
    assert keyspace.KeyFamily("queue", count=3).estimated_bytes == 0
    assert keyspace.by_family(redis, 10.0)[1]
