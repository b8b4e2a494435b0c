"""The state of shards: their workers, their server, and their waiting jobs."""

from __future__ import annotations

import json
import time

import pytest
import redis

from offsider import job
from offsider.config.config import Config
from offsider.core.payload import encode
from offsider.fleet import Shards
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


def seen(config):
    return {(shard.name, shard.server): shard for shard in Shards(config)}


def test_a_shard_is_shown_with_its_workers_and_waiting_jobs(config_of, raw_redis, other):
    add_process(raw_redis, 1, "first", "a", "b", busy=2)
    add_process(raw_redis, 2, "first", "a", "b", concurrency=10, quiet=True)
    add_process(raw_redis, 3, "", "everything", "a")
    add_process(other, 4, "far", "a", busy=1)
    add_jobs(raw_redis, "a", 500, 30)
    add_jobs(raw_redis, "b", 100)
    add_jobs(raw_redis, "c", 1000)
    add_jobs(other, "a", 7)
    shards = '[shards.first]\nqueues = ["a,3", "b"]\n[shards.far]\nqueues = ["a"]\nserver = "other"\n'
    found = list(Shards(config_of(shards)))
    expected = [("first", "main"), ("far", "other"), ("", "main"), ("", "main")]
    assert [(shard.name, shard.server) for shard in found] == expected
    first, far, without, left = found
    assert (first.queues, first.processes, first.quiet) == (("a", "b"), 2, 1)
    assert (first.concurrency, first.busy, first.waiting, first.error) == (15, 2, 3, "")
    assert 499 < first.latency_seconds < 600
    assert (far.processes, far.busy, far.waiting) == (1, 1, 1)
    assert 6 < far.latency_seconds < 100
    assert (without.queues, without.processes, without.waiting) == (("everything", "a"), 1, 2)
    assert (left.queues, left.processes, left.waiting) == (("c",), 0, 1)
    assert 999 < left.latency_seconds < 1100


def test_an_unserved_shard_shows_its_waiting_jobs(config_of, raw_redis):
    add_jobs(raw_redis, "a", 30)
    shard = Shards(config_of('[shards.first]\nqueues = ["a"]\n')).find("first")
    assert (shard.processes, shard.concurrency, shard.waiting) == (0, 0, 1)
    assert Shards(config_of("")).find("first") is None
    assert Shards(config_of("")).find("") is None


def test_a_star_means_every_queue_of_the_server(config_of, raw_redis, other):
    add_process(raw_redis, 1, "all", "a", "b")
    add_jobs(raw_redis, "a", 30)
    add_jobs(raw_redis, "b", 30)
    add_jobs(other, "c", 30)
    shard = Shards(config_of('[shards.all]\nqueues = ["*"]\n')).find("all")
    assert (shard.queues, shard.waiting) == (("*",), 2)


def test_queues_of_selected_jobs_are_derived_from_declarations_and_workers(config_of, raw_redis):
    config = config_of('[shards.fast]\nselect = "urgency=high"\n')
    add_jobs(raw_redis, "urgent", 30)
    add_jobs(raw_redis, "elsewhere", 30)
    assert Shards(config).find("fast").queues == ()

    @job(urgency="high")
    def declared(): ...

    assert (Shards(config).find("fast").queues, Shards(config).find("fast").waiting) == (("urgent",), 1)
    add_process(raw_redis, 1, "fast", "elsewhere")
    assert (Shards(config).find("fast").queues, Shards(config).find("fast").waiting) == (("urgent", "elsewhere"), 2)


def test_an_unresponsive_server_hides_no_other(config_of, raw_redis):
    add_process(raw_redis, 1, "near", "a")
    shards = '[shards.near]\nqueues = ["a"]\n[shards.far]\nqueues = ["b"]\nserver = "other"\n'
    near, far = seen(config_of(shards, "redis://:secret@127.0.0.1:1/0")).values()
    assert (near.processes, near.error) == (1, "")
    assert (far.processes, far.queues, far.url) == (0, ("b",), "redis://:***@127.0.0.1:1/0")
    assert "cannot be reached" in far.error


def test_a_renamed_shard_is_shown_under_the_name_its_workers_report(config_of, raw_redis, other):
    add_process(raw_redis, 1, "old", "a")
    add_process(raw_redis, 2, "far", "b")
    add_jobs(raw_redis, "b", 30)
    found = seen(config_of('[shards.new]\nqueues = ["a"]\n[shards.far]\nqueues = ["b"]\nserver = "other"\n'))
    assert list(found) == [("new", "main"), ("far", "other"), ("far", "main"), ("old", "main")]
    assert (found["new", "main"].processes, found["far", "other"].processes) == (0, 0)
    assert (found["far", "main"].processes, found["far", "main"].waiting) == (1, 1)
    assert (found["old", "main"].processes, found["old", "main"].queues) == (1, ("a",))
