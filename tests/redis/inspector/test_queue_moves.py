"""`Queue.move_all`: waiting jobs move to another queue, and to another server."""

from __future__ import annotations

import json

import pytest
import redis as redis_py

from offsider.config.installation import Installation
from offsider.core.errors import InvalidOptions, RedisRefused
from offsider.inspector import Queue
from offsider.storage import places


def raw_job(number: int, queue: str = "old") -> bytes:
    return json.dumps({"class": "HardJob", "args": [number], "jid": f"{number:024x}", "queue": queue}).encode()


def push(client, *numbers: int) -> None:
    client.sadd("queues", "old")
    client.lpush("queue:old", *map(raw_job, numbers))


def in_queue(client, queue: str) -> list[tuple[int, str]]:
    """Each job with the queue that it names, in the order in which they run."""
    jobs = [json.loads(raw) for raw in reversed(client.lrange(f"queue:{queue}", 0, -1))]
    return [(job["args"][0], job["queue"]) for job in jobs]


@pytest.fixture
def config(config, other_url):
    config.add_server("bulk", url=other_url)
    return config


@pytest.fixture
def bulk(other_url):
    with redis_py.Redis.from_url(other_url) as client:
        yield client


def test_jobs_move_behind_those_of_the_other_queue_and_name_it(config, raw_redis, monkeypatch):
    monkeypatch.setattr(places, "BATCH", 3)
    raw_redis.lpush("queue:new", raw_job(99, "new"))
    push(raw_redis, *range(10))
    assert Queue("old", config).move_all("new") == 10
    assert in_queue(raw_redis, "new") == [(n, "new") for n in (99, *range(10))]
    assert raw_redis.llen("queue:old") == 0
    assert b"new" in raw_redis.smembers("queues")


def test_malformed_jobs_move_unchanged(config, raw_redis):
    raw_redis.lpush("queue:old", "{no job", "17")
    assert Queue("old", config).move_all("new") == 2
    assert raw_redis.lrange("queue:new", 0, -1) == [b"17", b"{no job"]


def test_a_job_that_a_worker_claims_first_is_not_moved(config, raw_redis, monkeypatch):
    push(raw_redis, *range(5))
    page = places.move

    def claim_first(*given):
        raw_redis.rpop("queue:old", 2)
        return page(*given)

    monkeypatch.setattr(places, "move", claim_first)
    assert Queue("old", config).move_all("new") == 3
    assert in_queue(raw_redis, "new") == [(n, "new") for n in (2, 3, 4)]


def test_jobs_that_are_pushed_during_a_move_do_not_prolong_it(config, raw_redis, monkeypatch):
    push(raw_redis, *range(4))
    monkeypatch.setattr(places, "BATCH", 2)
    page = places.move

    def push_more(*given):
        push(raw_redis, 10, 11)
        return page(*given)

    monkeypatch.setattr(places, "move", push_more)
    assert Queue("old", config).move_all("new") == 4
    assert raw_redis.llen("queue:old") == 4


def test_jobs_move_to_another_server(config, raw_redis, bulk):
    push(raw_redis, *range(5))
    assert Queue("old", config).move_all("slow: 100%", server="bulk") == 5
    assert in_queue(bulk, "slow: 100%") == [(n, "slow: 100%") for n in range(5)]
    assert bulk.smembers("queues") == {b"slow: 100%"}
    assert not raw_redis.exists("queue:old")
    assert places.transits(Installation.of(config).redis) == {}


def test_jobs_that_the_other_server_refuses_wait_in_transit_for_the_next_move(config, raw_redis, bulk):
    push(raw_redis, 1)
    bulk.set("queue:new", "no list")
    with pytest.raises(RedisRefused, match="queue:new"):
        Queue("old", config).move_all("new", server="bulk")
    redis = Installation.of(config).redis
    assert places.transits(redis) == {"bulk": 1}
    (job,) = places.Place(redis, redis.keys.transit("bulk")).each()
    assert json.loads(job.raw)["args"] == [1]
    bulk.delete("queue:new")
    assert Queue("old", config).move_all("new", server="bulk") == 0
    assert in_queue(bulk, "new") == [(1, "new")]


def test_a_key_that_is_no_queue_takes_no_job(config, raw_redis):
    push(raw_redis, 1)
    raw_redis.set("queue:new", "no list")
    with pytest.raises(RedisRefused, match="queue:new is not a list"):
        Queue("old", config).move_all("new")
    assert in_queue(raw_redis, "old") == [(1, "old")]


@pytest.mark.parametrize("target", ["old", ""])
def test_the_target_is_another_queue(config, target):
    with pytest.raises(InvalidOptions):
        Queue("old", config).move_all(target)
