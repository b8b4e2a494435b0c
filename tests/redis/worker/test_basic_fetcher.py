"""BRPOP, as Sidekiq's free version does it."""

from __future__ import annotations

import threading

import pytest

from offsider.core.clock import Clock
from offsider.core.payload import decode, interrupted
from offsider.runtime import outage
from offsider.storage import quarantine
from offsider.worker.disposition import Dead, Done, Later, Moved, Quarantined, RequeuedFirst, RequeuedLast
from offsider.worker.fetch import basic
from offsider.worker.fetch.basic import BasicFetcher
from tests.snapshot import snapshot
from tests.waiting import wait_for

JOB = b'{"class":"X","args":[]}'
NOW = 1_795_216_780.25


class FixedClock(Clock):
    def now(self) -> float:
        return NOW


@pytest.fixture(autouse=True)
def short_delays(monkeypatch):
    monkeypatch.setattr(basic, "BLOCK_SECONDS", 1)
    monkeypatch.setattr(outage, "RETRY_SECONDS", 0.01)


@pytest.fixture
def fetcher(parts) -> BasicFetcher:
    return BasicFetcher(parts.context)


def test_a_job_is_removed_from_redis_when_it_is_fetched(fetcher, raw_redis):
    raw_redis.lpush("queue:default", JOB)
    unit = fetcher.retrieve()
    assert (unit.queue, unit.raw, unit.owner) == ("default", JOB, None)
    assert unit.alone_in == fetcher._ownership.identity
    assert snapshot(raw_redis) == {}
    fetcher.settle(unit, Done())
    assert snapshot(raw_redis) == {}
    assert unit.settled


@pytest.mark.parametrize(
    "disposition, key, stored",
    [
        (RequeuedFirst(b"back"), "queue:default", [b"waiting", b"back"]),
        (RequeuedLast(), "queue:default", [JOB, b"waiting"]),
        (Later("retry", b"later", 9.0), "retry", {b"later": NOW + 9.0}),
        (Later("schedule", b"later", 9.0), "schedule", {b"later": NOW + 9.0}),
        (Dead(b"dead"), "dead", {b"dead": NOW}),
        (Moved(), "queue:default", [b"waiting"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_disposition_is_written_and_reported(parts, raw_redis, disposition, key, stored):
    parts.config.clock = FixedClock()
    reported = []
    parts.listeners.append(reported.extend)
    fetcher = BasicFetcher(parts.context)
    raw_redis.lpush("queue:default", JOB, "waiting")
    unit = fetcher.retrieve()
    fetcher.settle(unit, disposition)
    assert snapshot(raw_redis)[key] == stored
    assert unit.settled
    assert [(one.unit, one.disposition, one.lost) for one in reported] == [(unit, disposition, False)]


def test_a_job_that_a_switch_drops_is_in_the_quarantine(fetcher, parts, raw_redis):
    raw_redis.lpush("queue:default", JOB)
    fetcher.settle(fetcher.retrieve(), Quarantined("a control"))
    assert quarantine.size(parts.redis) == 1


def test_a_settle_waits_for_the_server_until_the_worker_is_abandoned(proxied, proxy, raw_redis):
    reported = []
    proxied.listeners.append(reported.extend)
    fetcher = BasicFetcher(proxied.context)
    raw_redis.lpush("queue:default", JOB)
    unit = fetcher.retrieve()
    proxy.refuse()
    proxied.context.abandoned.set()
    fetcher.settle(unit, Later("retry", JOB, 9.0))
    assert (unit.settled, reported) == (False, [])


def test_requeued_jobs_are_the_next_to_run(fetcher, raw_redis):
    raw_redis.lpush("queue:default", JOB, "waiting")
    unit = fetcher.retrieve()
    fetcher.give_back([(unit, interrupted(unit.raw))])
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


def test_a_job_from_a_late_pop_is_requeued_by_a_quiet_fetcher(fetcher, raw_redis):
    units = []
    waiting = threading.Thread(target=lambda: units.append(fetcher.retrieve()))
    waiting.start()
    wait_for(lambda: any(client["cmd"] == "brpop" for client in raw_redis.client_list()))
    fetcher.quiet()
    raw_redis.lpush("queue:default", JOB)
    waiting.join(10)
    assert units == [None]
    assert raw_redis.lrange("queue:default", 0, -1) == [JOB]
