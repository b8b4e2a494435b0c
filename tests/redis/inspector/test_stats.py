"""The numbers of a server, as on Sidekiq's first page."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from offsider.client import Client
from offsider.config.installation import Installation
from offsider.core.errors import InvalidOptions
from offsider.inspector import ServerLook, Stats
from offsider.storage import processes
from offsider.storage.activity import RATE_SECONDS, Activity
from offsider.storage.cluster import DEFAULT_PREFIX
from offsider.storage.redis import Redis
from tests.redis.inspector.payloads import job


def test_an_empty_server_has_zeros(config):
    read = Stats.read(config)
    assert read == Stats(0, 0, 0, 0, 0, 0, 0, {})
    assert isinstance(read.default_queue_latency_seconds, float)


def test_every_number_is_read(config, raw_redis):
    client = Client(config)
    client.push_bulk({"class": "X", "args": [[1], [2]], "queue": "low"})
    client.push({"class": "X", "args": []})
    client.push({"class": "X", "args": [], "at": 4_102_444_800})
    raw_redis.zadd("retry", {job(1): 1, job(2): 2})
    raw_redis.zadd("dead", {job(3): 1, job(4): 2, job(5): 3})
    raw_redis.mset({"stat:processed": 1234, "stat:failed": 56})
    raw_redis.sadd("processes", "one:1:ab", "two:2:cd", "silent:3:ef")
    raw_redis.hset("one:1:ab", mapping={"info": "{}", "busy": 3})
    raw_redis.hset("two:2:cd", mapping={"info": "{}", "busy": 4})
    raw_redis.sadd("paused", "low")
    raw_redis.sadd("offsider:places", *(f"{DEFAULT_PREFIX}offsider:{name}" for name in "ab"))
    raw_redis.lpush(f"{DEFAULT_PREFIX}offsider:a", "1", "2")
    raw_redis.lpush(f"{DEFAULT_PREFIX}offsider:b", "3")
    read = Stats.read(config)
    assert replace(read, default_queue_latency_seconds=0, queue_summaries=()) == Stats(
        processed=1234,
        failed=56,
        enqueued=3,
        scheduled=1,
        retries=2,
        dead=3,
        processes=2,
        queues={"default": 1, "low": 2},
        busy=7,
        held_back=3,
        silent_processes=2,
    )
    assert [(queue.name, queue.size, queue.paused) for queue in read.queue_summaries] == [
        ("default", 1, False),
        ("low", 2, True),
    ]


def test_the_rate_is_the_sum_over_all_processes(config, raw_redis):
    for identity in ("one:1:ab", "two:2:cd", "ruby:3:ef"):
        raw_redis.sadd("processes", identity)
        raw_redis.hset(identity, mapping={"info": "{}", "busy": 1})
    redis = Installation.of(config).make_redis(1)
    for identity, busy, activity in (("one:1:ab", 5, Activity(400.0, 20.0)), ("two:2:cd", 0, Activity(30.5, 0.5))):
        processes.write(redis, identity, {"busy": busy}, {}, activity, wire_version=8)
    read = Stats.read(config)
    assert (read.processed_per_second, read.failed_per_second) == (430.5, 20.5)
    assert (read.busy, read.processes, read.silent_processes) == (6, 3, 1)


def test_the_rate_of_a_process_that_is_frozen_is_not_counted(config, raw_redis):
    raw_redis.sadd("processes", "one:1:ab")
    stored_report = json.dumps({"processed": 400.0, "failed": 1.0, "running": {}, "at": time.time() - RATE_SECONDS - 1})
    raw_redis.hset("one:1:ab", mapping={"info": "{}", "busy": 1, "activity": stored_report})
    read = Stats.read(config)
    assert (read.processed_per_second, read.failed_per_second, read.silent_processes) == (0, 0, 0)


def test_the_latency_of_each_queue_is_the_wait_of_its_next_job(config, raw_redis):
    hour_ago = int((config.clock.now() - 3600) * 1000)
    waiting = b'{"class":"X","args":[],"enqueued_at":%d}' % hour_ago
    raw_redis.sadd("queues", "default", "low", "odd")
    raw_redis.lpush("queue:default", waiting, job(1))
    raw_redis.lpush("queue:low", job(1), waiting)
    raw_redis.set("queue:odd", "no list")
    read = Stats.read(config)
    assert read.default_queue_latency_seconds == pytest.approx(3600, abs=30)
    assert [round(queue.latency_seconds, -2) for queue in read.queue_summaries] == [3600, 0, 0]
    assert read.queues == {"default": 2, "low": 2, "odd": 0}


def test_a_process_of_a_queue_and_of_all_queues_is_listed_once(config, raw_redis):
    for identity, queues in (("one:1:ab", ["low", "*"]), ("two:2:cd", ["low"]), ("two:3:ef", ["*"])):
        raw_redis.sadd("processes", identity)
        raw_redis.hset(identity, mapping={"info": json.dumps({"queues": queues}), "busy": 0})
    listed = [process.identity for process in ServerLook.read(config).listed("low")]
    assert sorted(listed) == ["one:1:ab", "two:2:cd", "two:3:ef"]


def test_stats_always_take_two_round_trips(config, raw_redis, monkeypatch):
    raw_redis.sadd("queues", *(f"q{n}" for n in range(100)))
    raw_redis.sadd("processes", *(f"p{n}" for n in range(10)))
    trips = []
    pipeline = Redis.pipeline
    monkeypatch.setattr(Redis, "pipeline", lambda *args, **how: trips.append(1) or pipeline(*args, **how))
    assert len(Stats.read(config).queue_summaries) == 100
    assert len(trips) == 2


def test_keys_of_the_wrong_type_count_as_empty(config, raw_redis):
    for key in ("schedule", "queues", "processes", "paused", "offsider:places"):
        raw_redis.set(key, "no set")
    raw_redis.set("stat:processed", "many")
    raw_redis.sadd("stat:failed", "x")
    raw_redis.zadd("retry", {job(1): 1})
    assert Stats.read(config) == Stats(0, 0, 0, 0, 1, 0, 0, {})


def test_names_that_are_not_text_are_omitted(config, raw_redis):
    raw_redis.sadd("queues", b"\xff", "low")
    raw_redis.sadd("processes", b"\xff")
    assert Stats.read(config).queues == {"low": 0}


def test_counters_are_reset_together_or_one_alone(config, raw_redis):
    raw_redis.mset({"stat:processed": 5, "stat:failed": 3, "stat:failed:2026-11-21": 3})
    Stats.reset("failed", config=config)
    assert (Stats.read(config).processed, Stats.read(config).failed) == (5, 0)
    Stats.reset(config=config)
    assert Stats.read(config).processed == 0
    assert raw_redis.get("stat:failed:2026-11-21") == b"3"
    with pytest.raises(InvalidOptions, match="unknown counter 'busy': choose processed or failed"):
        Stats.reset("busy", config=config)
