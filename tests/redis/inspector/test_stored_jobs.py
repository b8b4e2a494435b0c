"""Stored jobs of some classes are counted place by place, and those that fail a test among them."""

from __future__ import annotations

from offsider.config.installation import Installation
from offsider.core.payload import encode
from offsider.fleet.manifest import StoredJobs, stored_jobs
from offsider.inspector.job_filter import JobFilter
from offsider.inspector.queue import Queue
from offsider.storage.cluster import DEFAULT_PREFIX


def job(name: str, *args: object, **fields: object) -> bytes:
    return encode({"class": name, "args": list(args), "jid": str(args), **fields})


def test_every_place_is_scanned_and_only_the_given_classes_are_counted(config, raw_redis):
    raw_redis.sadd("queues", "low", "high")
    raw_redis.lpush("queue:low", job("A", 1), job("A", 1, 2), job("B"), b"no job")
    raw_redis.lpush("queue:high", *(job("A", number) for number in range(120)))
    raw_redis.zadd("schedule", {job("A", 7, 8): 9e9, job("C"): 9e9})
    raw_redis.zadd("retry", {job("A", 9): 1})
    raw_redis.zadd("dead", {job("A", 1, 2, 3): 1, job("C", 1): 1})
    found = stored_jobs(
        Installation.of(config), {"A": lambda record: len(record.args) == 1, "C": lambda record: None, "D": bool}
    )
    assert found == {
        "A": StoredJobs({"schedule": 1, "retry": 1, "queue:high": 120, "queue:low": 2, "dead": 1}, 2),
        "C": StoredJobs({}, 0),
        "D": StoredJobs({}, 0),
    }


def test_nothing_is_stored(config):
    assert stored_jobs(Installation.of(config), {"A": bool}) == {"A": StoredJobs({}, 0)}


def test_running_held_departing_and_quarantined_jobs_are_counted_too(config, raw_redis):
    raw_redis.hset("offsider:owners", "host:1:abc", '{"default": ["low"]}')
    raw_redis.lpush("offsider:working:host:1:abc:default:low", job("A", 1))
    held = f"{DEFAULT_PREFIX}offsider:held:A"
    raw_redis.sadd("offsider:places", held)
    raw_redis.lpush(held, job("A", 2), job("A", 3, 4))
    raw_redis.sadd("offsider:in-transit", "bulk")
    raw_redis.lpush("offsider:in-transit:bulk", b"m1 low\n" + job("A", 5))
    raw_redis.sadd("queues", "low")
    raw_redis.lpush("queue:low", job("A", 6))
    assert Queue("low", config).quarantine_all(JobFilter(name="A")) == 1
    assert stored_jobs(Installation.of(config), {"A": lambda record: len(record.args) == 1}) == {
        "A": StoredJobs(
            {
                "running": 1,
                Installation.of(config).redis.keys.transit("bulk"): 1,
                held: 2,
                "quarantine": 1,
            },
            1,
        )
    }


def test_a_job_claimed_during_the_scan_is_counted_once(config, raw_redis):
    raw_redis.hset("offsider:owners", "host:1:abc", '{"default": ["low"]}')
    raw_redis.lpush("offsider:working:host:1:abc:default:low", job("A", 1))
    raw_redis.zadd("schedule", {job("A", 2): 1})

    def claim(record):
        if record.args == [2]:
            raw_redis.lpush("offsider:working:host:1:abc:default:low", job("A", 3))
        return True

    assert stored_jobs(Installation.of(config), {"A": claim})["A"].places == {"running": 2, "schedule": 1}


def test_every_configured_server_is_scanned(config, raw_redis, redis_url, tag):
    config.add_server("bulk", url=redis_url, key_prefix=f"{tag}bulk:")
    raw_redis.zadd("retry", {job("A", 1): 1})
    raw_redis.zadd("bulk:retry", {job("A", 2): 1})
    found = stored_jobs(Installation.of(config), {"A": lambda record: False})
    assert found == {"A": StoredJobs({"retry": 1, "retry of bulk": 1}, 2)}
