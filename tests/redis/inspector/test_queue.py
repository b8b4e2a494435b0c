"""Queues from the outside: how many, which is next, and what may be done with them."""

from __future__ import annotations

import pytest

from offsider.client import Client
from offsider.inspector import DeadSet, Queue, RetrySet, ScheduledSet, Stats
from offsider.wiring.config import Config
from offsider.wiring.default import set_default_config
from tests.redis.inspector.payloads import JID, failed_job, job
from tests.snapshot import snapshot


@pytest.fixture
def queue(config):
    return Queue("default", config)


@pytest.fixture
def stock(raw_redis):
    """120 jobs, number 0 runs next: more than two pages."""
    raw_redis.sadd("queues", "default")
    raw_redis.lpush("queue:default", *map(job, range(120)))


def test_iterating_gives_the_job_that_runs_next_first(queue, stock):
    assert len(queue) == 120
    assert [record.args for record in queue] == [[n] for n in range(120)]


def test_every_queue_is_listed_by_name(config):
    client = Client(config)
    for name in ("low", "default", "high"):
        client.push({"class": "X", "args": [], "queue": name})
    assert [(queue.name, len(queue)) for queue in Queue.all(config)] == [("default", 1), ("high", 1), ("low", 1)]


def test_a_queue_that_does_not_exist_is_empty(queue):
    assert len(queue) == 0
    assert list(queue) == []
    assert queue.latency_seconds == 0
    assert queue.clear() == 0


def test_deleting_while_looking_misses_no_job(queue, stock, raw_redis, removed):
    for record in queue:
        if record.args[0] % 3:
            assert queue.delete(record)
    assert [record.args[0] for record in queue] == list(range(0, 120, 3))
    assert len(removed) == 80
    assert {(event.where, event.how) for event in removed} == {("queue:default", "delete")}


def test_jobs_that_are_pushed_or_taken_while_looking_come_in_no_ones_way(queue, stock, raw_redis):
    seen = []
    for record in queue:
        seen.append(record.args[0])
        raw_redis.rpop("queue:default")
    assert seen == list(range(120))
    raw_redis.lpush("queue:default", *map(job, range(60)))
    seen.clear()
    for record in queue:
        if not seen:
            raw_redis.lpush("queue:default", *map(job, range(60, 100)))
        seen.append(record.args[0])
    assert seen[:60] == list(range(60))


def test_a_job_is_found_by_its_jid(queue, stock):
    found = queue.find_job(f"{77:024x}")
    assert found is not None
    assert found.args == [77]
    assert queue.find_job("0" * 23) is None


def test_deleting_takes_one_job_and_only_while_it_is_there(queue, raw_redis, removed):
    raw_redis.lpush("queue:default", job(1), job(1), job(2))
    first, *_ = queue
    assert queue.delete(first)
    assert raw_redis.lrange("queue:default", 0, -1) == [job(2), job(1)]
    assert queue.delete(first)
    assert not queue.delete(first)
    assert [event.raw for event in removed] == [job(1), job(1)]


def test_clearing_a_queue_leaves_nothing_of_it(queue, stock, raw_redis, removed):
    raw_redis.lpush("queue:other", job(1))
    raw_redis.sadd("queues", "other")
    assert queue.clear() == 120
    assert snapshot(raw_redis) == {"queues": {b"other"}, "queue:other": [job(1)]}
    assert [event.raw for event in removed] == [job(n) for n in range(120)]
    assert {(event.where, event.how) for event in removed} == {("queue:default", "clear")}


def test_pausing_is_what_sidekiq_pro_calls_so(queue, raw_redis):
    assert not queue.paused
    queue.pause()
    assert queue.paused
    assert snapshot(raw_redis) == {"paused": {b"default"}}
    queue.unpause()
    assert not queue.paused
    assert snapshot(raw_redis) == {}


@pytest.mark.parametrize("version", [6, 7, 8])
def test_the_latency_is_the_wait_of_the_job_that_runs_next(config, raw_redis, version):
    raw_redis.lpush("queue:low", failed_job(version), job(2))
    low = Queue("low", config)
    assert low.latency_seconds == pytest.approx(config.clock.now() - 1795216781.652, abs=5)
    found = low.find_job(JID)
    assert found is not None
    assert low.delete(found)
    assert low.latency_seconds == 0  # of a job that does not tell


def test_bytes_that_are_no_job_are_shown_and_deleted_like_others(queue, raw_redis):
    raw_redis.rpush("queue:default", b"\xff no job")
    (record,) = queue
    assert record.malformed
    assert queue.latency_seconds == 0
    assert queue.find_job(JID) is None
    assert queue.delete(record)
    assert len(queue) == 0


def test_a_key_prefix_is_before_every_key(config, raw_redis):
    config.redis.key_prefix = "app:"
    Client(config).push({"class": "X", "args": [], "queue": "low"})
    (low,) = Queue.all(config)
    low.pause()
    assert sorted(snapshot(raw_redis)) == ["app:paused", "app:queue:low", "app:queues"]
    assert len(low) == 1
    assert low.clear() == 1


def test_without_a_configuration_it_is_this_processes(config, raw_redis):
    raw_redis.lpush("queue:default", job(1))
    raw_redis.sadd("queues", "default")
    previous = set_default_config(config)
    try:
        assert [len(queue) for queue in Queue.all()] == [1]
        assert len(Queue("default")) == 1
    finally:
        set_default_config(previous)


def test_whoever_looks_or_pushes_shares_one_pool(config, monkeypatch):
    made = []
    make = Config.make_redis
    monkeypatch.setattr(Config, "make_redis", lambda self, size: made.append(make(self, size)) or made[-1])
    for number in range(3):
        Client(config).push({"class": "A", "args": [number]})
        assert [queue.name for queue in Queue.all(config)] == ["default"]
        assert len(Queue("default", config)) == Stats.read(config).enqueued == number + 1
        assert [len(kind(config)) for kind in (ScheduledSet, RetrySet, DeadSet)] == [0, 0, 0]
    assert len(made) == 1
    made[0].close()
