"""What nothing points to is found by its name."""

from offsider.storage import keyspace

JOB = b'{"class":"Any","args":[]}'


def test_foreign_keys_are_found(pool, raw_redis, tag):
    raw_redis.lpush("queue:sq|host:1:abc|default", "{}")
    raw_redis.lpush("queue:sq_host:1:abc_default", "{}")
    raw_redis.lpush("working:queue:default:host:1", "{}")
    raw_redis.lpush("queue:default", "{}")
    raw_redis.sadd("queues", "default")
    raw_redis.sadd("shop:queues", "default")
    raw_redis.set("not-ours:queues", "a string")
    found = keyspace.walk(pool, 10)
    assert sorted(found.foreign_lists) == [
        f"{tag}queue:sq_host:1:abc_default",
        f"{tag}queue:sq|host:1:abc|default",
        f"{tag}working:queue:default:host:1",
    ]
    assert found.prefixes == [f"{tag}shop:"]


def test_under_a_prefix_the_keys_without_one_are_others(make_pool, redis_url, raw_redis, tag):
    raw_redis.sadd("queues", "default")
    raw_redis.sadd("shop:queues", "default")
    raw_redis.lpush("queue:sq|host:1:abc|default", "{}")
    found = keyspace.walk(make_pool(url=redis_url, key_prefix=f"{tag}shop:"), 10)
    assert (found.prefixes, found.foreign_lists) == ([tag], [])


def test_of_each_kind_a_hundred_are_enough(pool, raw_redis):
    for n in range(120):
        raw_redis.lpush(f"working:queue:default:host:{n}", "{}")
    assert len(keyspace.walk(pool, 10).foreign_lists) == 100


def test_private_lists_do_not_crowd_out_unregistered_queues(pool, raw_redis):
    for n in range(200):
        raw_redis.lpush(f"queue:sq|host:{n}:abc|default", JOB)
    for n in range(50):
        raw_redis.lpush(f"queue:q{n}", JOB)
    assert len(keyspace.walk(pool, 10).queues) == 50


def test_a_job_at_either_end_makes_a_queue_unless_its_name_is_not_utf_8(pool, raw_redis):
    raw_redis.rpush("queue:odd head", JOB, "garbage")
    raw_redis.rpush("queue:odd tail", "garbage", JOB)
    raw_redis.rpush("queue:other program", "garbage", "garbage")
    raw_redis.lpush(b"queue:caf\xe9", JOB)
    assert keyspace.walk(pool, 10).queues == ["odd head", "odd tail"]
