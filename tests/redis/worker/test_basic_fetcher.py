"""BRPOP, as Sidekiq's free version does it."""

from __future__ import annotations

import threading

import pytest

from offsider.core.payload import decode
from offsider.worker import basic_fetcher
from offsider.worker.basic_fetcher import BasicFetcher
from tests.snapshot import snapshot
from tests.waiting import wait_for

JOB = b'{"class":"X","args":[]}'


@pytest.fixture(autouse=True)
def hurry(monkeypatch):
    monkeypatch.setattr(basic_fetcher, "BLOCK_SECONDS", 1)
    monkeypatch.setattr(basic_fetcher, "OUTAGE_SECONDS", 0.01)


@pytest.fixture
def fetcher(parts) -> BasicFetcher:
    return BasicFetcher(parts.config, parts.capsule, parts.ownership)


def test_a_job_leaves_redis_when_it_is_taken(fetcher, raw_redis):
    raw_redis.lpush("queue:default", JOB)
    unit = fetcher.retrieve()
    assert (unit.queue, unit.raw, unit.entry) == ("default", JOB, None)
    assert unit.alone_in == fetcher._ownership.identity
    assert snapshot(raw_redis) == {}
    assert fetcher.acknowledge(unit)
    assert unit.settled


def test_jobs_that_go_back_are_the_next_to_run(fetcher, raw_redis):
    raw_redis.lpush("queue:default", JOB, "waiting")
    unit = fetcher.retrieve()
    unit.started = True
    fetcher.requeue(unit)
    waiting, first = raw_redis.lrange("queue:default", 0, -1)
    assert waiting == b"waiting"
    assert decode(first)["interrupted_count"] == 1
    assert unit.settled


def test_a_paused_queue_is_left_alone(fetcher, raw_redis):
    """BRPOP without any key would be an error."""
    raw_redis.sadd("paused", "default")
    raw_redis.lpush("queue:default", JOB)
    units = []
    waiting = threading.Thread(target=lambda: units.append(fetcher.retrieve()))
    waiting.start()
    wait_for(lambda: raw_redis.info("commandstats").get("cmdstat_smembers"))
    raw_redis.srem("paused", "default")
    waiting.join(10)
    assert [unit.raw for unit in units] == [JOB]


def test_a_job_that_a_late_pop_brings_to_a_quiet_fetcher_goes_back(fetcher, raw_redis):
    units = []
    waiting = threading.Thread(target=lambda: units.append(fetcher.retrieve()))
    waiting.start()
    wait_for(lambda: any(client["cmd"] == "brpop" for client in raw_redis.client_list()))
    fetcher.quiet()
    raw_redis.lpush("queue:default", JOB)
    waiting.join(10)
    assert units == [None]
    assert raw_redis.lrange("queue:default", 0, -1) == [JOB]


def test_an_outage_is_reported_once_and_the_thread_lives_on(proxied, proxy, raw_redis):
    fetcher = BasicFetcher(proxied.config, proxied.capsule, proxied.ownership)
    proxy.refuse()
    units = []
    waiting = threading.Thread(target=lambda: units.append(fetcher.retrieve()))
    waiting.start()
    wait_for(lambda: proxied.errors)
    raw_redis.lpush("queue:default", JOB)
    proxy.accept()
    waiting.join(10)
    assert [unit.raw for unit in units] == [JOB]
    assert len(proxied.errors) == 1
