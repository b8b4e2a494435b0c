"""The state of shards: their workers, their server, and their waiting jobs."""

from __future__ import annotations

import json
import time

import pytest
import redis

from offsider import job
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.payload import encode
from offsider.fleet import ShardLoads
from offsider.jobs import registry

RULES = '[routing]\nrules = [["urgency=high", "urgent"], ["tags=slow", "slow", "other"], ["*", "default"]]\n'


@pytest.fixture(autouse=True)
def nothing_declared(monkeypatch):
    """What other modules of tests have declared is out of sight."""
    monkeypatch.setattr(registry, "_jobs", {})


@pytest.fixture
def other(other_url):
    """A client of the second server."""
    with redis.Redis.from_url(other_url) as client:
        yield client


@pytest.fixture
def config_of(tmp_path, redis_url, other_url):
    """config_of('[shards.a]...'): a configuration of two servers, main and other."""

    def load(text, url=""):
        file = tmp_path / "offsider.toml"
        servers = f'[redis]\nurl = "{redis_url}"\n[servers.other]\nurl = "{url or other_url}"\n'
        file.write_text(f"{servers}{RULES}{text}")
        return Config.load(file, environ={})

    return load


def add_process(client, number, shard, *queues, concurrency=5, busy=0, quiet=False):
    identity = f"one:{number}:abcdefabcdef"
    info = {"hostname": "one", "pid": number, "concurrency": concurrency, "queues": queues, "shard": shard}
    client.sadd("processes", identity)
    fields = {"info": json.dumps(info), "busy": busy, "beat": time.time(), "quiet": "true" if quiet else "false"}
    client.hset(identity, mapping=fields)


def add_jobs(client, queue, *ages):
    client.sadd("queues", queue)
    for age in ages:
        enqueued_at = int((time.time() - age) * 1000)
        payload = {"class": "Mail", "args": [], "jid": "0" * 24, "queue": queue, "enqueued_at": enqueued_at}
        client.lpush(f"queue:{queue}", encode(payload))


def seen(config, server="main"):
    return {shard.name: shard for shard in ShardLoads.read(Installation.of(config, server))}


def test_a_shard_is_shown_with_its_workers_and_waiting_jobs(config_of, raw_redis, other):
    add_process(raw_redis, 1, "first", "a", "b", busy=2)
    add_process(raw_redis, 2, "first", "a", "b", concurrency=10, quiet=True)
    add_process(raw_redis, 3, "", "everything", "a")
    add_process(other, 4, "far", "a", busy=1)
    add_jobs(raw_redis, "a", 500, 30)
    add_jobs(raw_redis, "b", 100)
    add_jobs(raw_redis, "c", 1000)
    add_jobs(other, "a", 7)
    config = config_of('[shards.first]\nqueues = ["a,3", "b"]\n[shards.far]\nqueues = ["a"]\nserver = "other"\n')
    without, first = seen(config).values()
    assert (first.name, first.queues, first.processes, first.quiet) == ("first", ["a", "b"], 1, 1)
    assert (first.threads, first.busy, first.waiting) == (5, 2, 3)
    assert 499 < first.latency_seconds < 600
    assert (without.name, without.queues, without.processes, without.waiting) == ("", ["a", "everything"], 1, 2)
    (far,) = seen(config, "other").values()
    assert (far.name, far.processes, far.busy, far.waiting) == ("far", 1, 1, 1)
    assert 6 < far.latency_seconds < 100


def test_a_star_means_every_queue_of_the_server(config_of, raw_redis, other):
    add_process(raw_redis, 1, "all", "a", "b")
    add_jobs(raw_redis, "a", 30)
    add_jobs(raw_redis, "z", 30)
    add_jobs(other, "c", 30)
    shard = seen(config_of('[shards.all]\nqueues = ["*"]\n'))["all"]
    assert (shard.queues, shard.waiting) == (["a", "b", "z"], 2)


def test_queues_of_selected_jobs_are_derived_from_declarations_and_workers(config_of, raw_redis):
    config = config_of('[shards.fast]\nselect = "urgency=high"\n')
    add_jobs(raw_redis, "urgent", 30)
    add_jobs(raw_redis, "elsewhere", 30)
    assert seen(config)["fast"].queues == []

    @job(urgency="high")
    def declared(): ...

    assert (seen(config)["fast"].queues, seen(config)["fast"].waiting) == (["urgent"], 1)
    add_process(raw_redis, 1, "fast", "elsewhere")
    assert (seen(config)["fast"].queues, seen(config)["fast"].waiting) == (["elsewhere", "urgent"], 2)


def test_a_renamed_shard_is_shown_under_the_name_its_workers_report(config_of, raw_redis):
    add_process(raw_redis, 1, "old", "a")
    found = seen(config_of('[shards.new]\nqueues = ["a"]\n'))
    assert [(name, shard.processes, shard.queues) for name, shard in found.items()] == [
        ("new", 0, ["a"]),
        ("old", 1, ["a"]),
    ]
