"""Queues: pushed at the left, taken from the right."""

import pytest

from offsider.core.errors import RedisRefused
from offsider.storage import queues
from offsider.storage.keyspace import walk
from tests.snapshot import snapshot


def test_a_push_stores_the_jobs_and_the_name_of_the_queue(pool, raw_redis):
    assert pool.pipeline(queues.push_commands(pool.keys, "low", [b"a", b"b"])) == [1, 2]
    assert snapshot(raw_redis) == {"queues": {b"low"}, "queue:low": [b"b", b"a"]}


def test_the_job_is_stored_though_the_name_of_its_queue_is_refused(pool, raw_redis):
    """The reply of LPUSH alone is the result: an error after it would make people push twice (rule 14)."""
    raw_redis.set("queues", "wrong")
    replies = pool.pipeline(queues.push_commands(pool.keys, "low", [b"a"]), raise_errors=False)
    assert isinstance(replies[0], RedisRefused)
    assert replies[-1] == 1
    assert raw_redis.lrange("queue:low", 0, -1) == [b"a"]


def test_scheduled_jobs_have_their_time_as_score(pool, raw_redis):
    pool.pipeline(queues.schedule_commands(pool.keys, [(1_800_000_000.25, b"a"), (4e9, b"b")]))
    assert snapshot(raw_redis) == {"schedule": {b"a": 1_800_000_000.25, b"b": 4e9}}


def test_waiting_for_replicas_returns_their_number(pool, replicas):
    assert pool.call(*queues.wait_command(replicas + 1, 1)) == replicas


def test_a_job_at_the_head_is_the_next_to_be_popped(pool, raw_redis):
    raw_redis.lpush("queue:low", "waiting")
    queues.push_to_head(pool, "low", b"first")
    assert queues.pop_blocking(pool, ["high", "low"], 1) == ("low", b"first")
    assert queues.pop_blocking(pool, ["high", "low"], 1) == ("low", b"waiting")
    assert snapshot(raw_redis) == {"queues": {b"low"}}


def test_a_job_that_is_put_last_is_popped_after_all_that_wait(pool, raw_redis):
    raw_redis.lpush("queue:low", "waiting")
    queues.push_last(pool, "low", b"last")
    assert snapshot(raw_redis) == {"queue:low": [b"last", b"waiting"], "queues": {b"low"}}


def test_a_pop_from_an_empty_queue_returns_nothing(pool):
    assert queues.pop_blocking(pool, ["none"], 1) is None


@pytest.mark.parametrize("prefix", ["", "{offsider}:resque:gitlab:"])
def test_the_name_of_a_popped_queue_has_no_prefix(make_pool, redis_url, raw_redis, prefix):
    prefixed = make_pool(url=redis_url, key_prefix=prefix)
    raw_redis.lpush(f"{prefix}queue:a:b", "job")
    assert queues.pop_blocking(prefixed, ["a:b"], 1) == ("a:b", b"job")


JOB = b'{"class":"Any","args":[]}'


@pytest.mark.parametrize("prefix", ["", "{offsider}:odd[*]?:"])
def test_queues_with_jobs_that_no_client_registered_are_found(make_pool, redis_url, prefix, monkeypatch):
    monkeypatch.setattr(queues, "SCANNED", 1)
    redis = make_pool(url=redis_url, key_prefix=prefix)
    start = redis.keys.queue("")
    for name, raw in {"ghost": JOB, "other program": b"1", "sq|host:1:a|ghost": JOB, "known": JOB}.items():
        redis.call("LPUSH", start + name, raw)
    redis.call("SET", f"{start}text", "x")
    redis.call("LPUSH", f"{redis.keys.prefix}x:queue:of another prefix", JOB)
    queues.register(redis, ["known"])
    assert scanned(redis) == ["ghost"] == walk(redis, 5).queues
    queues.register(redis, ["ghost"])
    queues.register(redis, [])
    assert queues.names(redis) == ["ghost", "known"]
    assert scanned(redis) == [] == walk(redis, 5).queues


def scanned(redis):
    found, cursor = [], b"0"
    while True:
        cursor, names = queues.find_unregistered(redis, cursor)
        found += names
        if cursor == b"0":
            return found
