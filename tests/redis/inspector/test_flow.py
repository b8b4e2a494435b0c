"""Rates and ETAs of queues, and the load of the server, compared with a ledger of what was pushed and claimed."""

from __future__ import annotations

import json
import threading
from collections import Counter

import pytest

from offsider import job
from offsider.config.installation import Installation
from offsider.core.payload import encode
from offsider.inspector import Flow, ServerLoad
from offsider.storage import run_counts, samples
from offsider.storage.samples import EXPIRY_SECONDS, SECONDS
from offsider.testing import FakeClock
from offsider.worker.embed import EmbeddedWorker
from offsider.worker.leased import LEASE_SECONDS
from offsider.worker.sampler import Sampler
from tests.waiting import wait_for

NOON = 1_800_000_000.0  # a whole hour


class Ledger:
    """Pushes and claims jobs, and remembers how many, by queue and minute."""

    def __init__(self, config, client) -> None:
        self.config, self.client = config, client
        self.clock = config.clock = FakeClock(NOON)
        self.sampler = Sampler(config, Installation.of(config).redis)
        self.arrived: dict[str, Counter[float]] = {}
        self.claimed: dict[str, Counter[float]] = {}

    @property
    def minute(self) -> float:
        return self.clock.now() // 60 * 60

    def push(self, queue: str, count: int) -> None:
        raw = encode({"class": "A", "args": [], "enqueued_at": int(self.clock.now() * 1000)})
        self.client.sadd("queues", queue)
        for _ in range(count):
            self.client.lpush(f"queue:{queue}", raw)
        self.arrived.setdefault(queue, Counter())[self.minute] += count

    def claim(self, queue: str, count: int) -> None:
        assert len(self.client.rpop(f"queue:{queue}", count)) == count
        claims = {queue: count}
        run_counts.add(Installation.of(self.config).redis, [], self.clock.now(), wire_version=8, claimed=claims)
        self.claimed.setdefault(queue, Counter())[self.minute] += count

    def sample(self) -> None:
        """Let an interval pass, then take a sample."""
        self.clock.advance(SECONDS)
        assert self.sampler.tick() == SECONDS


@pytest.fixture
def ledger(config, raw_redis) -> Ledger:
    ledger = Ledger(config, raw_redis)
    ledger.sampler.tick()
    return ledger


def test_rates_and_etas_are_those_of_the_ledger(config, ledger):
    ledger.push("drains", 1000)
    for number in range(30):  # five minutes
        ledger.push("drains", 10)
        ledger.claim("drains", 20 + number % 2)
        ledger.push("grows", 7)
        ledger.claim("grows", 2)
        ledger.push("passes", 5)
        ledger.claim("passes", 5)
        ledger.sample()
    flow = Flow.read(config)
    assert flow.at == NOON + 300
    drains, grows, passes = (flow.queues[name] for name in ("drains", "grows", "passes"))
    assert (drains.size, grows.size, passes.size) == (1000 + 300 - 615, 150, 0)
    assert (drains.in_per_second, drains.out_per_second) == (1300 / 300, 615 / 300)
    assert (grows.in_per_second, grows.out_per_second) == (0.7, 0.2)
    assert (passes.in_per_second, passes.out_per_second) == (0.5, 0.5)
    assert (grows.eta_seconds, passes.eta_seconds, drains.eta_seconds) == (None, 0.0, None)
    for queue in (drains, grows, passes):
        assert [each.at for each in queue.minutes] == [NOON + 60 * minute for minute in range(5)]
        assert {each.at: each.arrived for each in queue.minutes} == ledger.arrived[queue.name]
        assert {each.at: each.claimed for each in queue.minutes} == ledger.claimed[queue.name]
    for _ in range(30):
        ledger.push("drains", 10)
        ledger.claim("drains", 20)
        ledger.sample()
    drains = Flow.read(config).queues["drains"]
    assert (drains.in_per_second, drains.out_per_second, drains.eta_seconds) == (1.0, 2.0, 385.0)
    longer = Flow.read(config, minutes=10).queues["drains"]
    assert longer.eta_seconds == 385.0
    assert sum(each.arrived for each in longer.minutes) == 1600


def test_size_and_latency_are_averages_of_a_minute_and_the_last_ones(config, ledger):
    ledger.push("default", 2)
    for _ in range(3):
        ledger.sample()
    ledger.push("default", 2)
    for _ in range(3):
        ledger.sample()
    queue = Flow.read(config).queues["default"]
    assert (queue.size, queue.latency_seconds) == (4, 60.0)
    last = queue.minutes[-1]
    assert (last.at, last.size, last.latency_seconds) == (NOON, 3.0, 35.0)


def test_jobs_that_return_arrive_again_and_deleted_jobs_never_arrived(config, ledger, raw_redis):
    ledger.push("default", 6)
    ledger.sample()
    ledger.claim("default", 4)
    ledger.push("default", 1)  # one of the four
    ledger.sample()
    raw_redis.rpop("queue:default", 3)
    ledger.sample()
    assert [(each.arrived, each.claimed) for each in Flow.read(config).queues["default"].minutes if each.arrived] == [
        (7, 4)
    ]
    assert Flow.read(config).queues["default"].size == 0


def test_another_worker_continues_where_the_last_sampler_stopped(config, ledger):
    ledger.push("default", 3)
    ledger.sample()
    ledger.push("default", 4)
    successor = Sampler(config, Installation.of(config).redis)
    ledger.clock.advance(SECONDS)
    successor.tick()
    assert Flow.read(config).at == NOON + SECONDS  # the lease is still the first one's
    ledger.sampler._release()
    successor.tick()
    flow = Flow.read(config)
    assert (flow.at, flow.queues["default"].in_per_second) == (NOON + 20, 7 / 20)
    assert 0 < Installation.of(config).redis.call("TTL", "offsider:turn:sampler") <= LEASE_SECONDS


def test_without_samples_there_is_no_flow_and_an_old_sample_is_no_base(config, ledger, raw_redis):
    assert 0 < raw_redis.ttl("offsider:sample") <= EXPIRY_SECONDS
    for stored in (None, b"no sample", b"[]", b"5"):
        raw_redis.delete("offsider:sample")
        if stored is not None:
            raw_redis.set("offsider:sample", stored)
        assert Flow.read(config) == Flow(None, {}, ServerLoad())
    ledger.push("default", 50)
    ledger.sample()
    queue = Flow.read(config).queues["default"]
    assert (queue.size, queue.in_per_second) == (50, 0.0)
    ledger.push("default", 5)
    ledger.sample()
    assert Flow.read(config).queues["default"].in_per_second == 0.5


def test_of_many_queues_those_with_the_most_jobs_are_sampled(config, ledger, monkeypatch, raw_redis):
    monkeypatch.setattr(samples, "MAX_QUEUES", 2)
    for size, name in enumerate(("small", "middle", "large"), 1):
        ledger.push(name, size)
    ledger.sample()
    assert sorted(Flow.read(config).queues) == ["large", "middle"]
    ledger.push("small", 9)
    ledger.sample()
    small = Flow.read(config).queues["small"]
    assert (small.size, small.in_per_second) == (10, 0.0)  # how many came in since the last sample is unknown
    ledger.claim("small", 10)
    ledger.sample()
    assert Flow.read(config).queues["small"].out_per_second == 10 / 30
    raw_redis.srem("queues", "small")
    ledger.sample()
    assert raw_redis.hgetall("offsider:claimed") == {}


def test_a_thousand_queues_fit(config, ledger, raw_redis):
    for number in range(1_000):
        ledger.push(f"q{number}", 1)
    ledger.sample()
    flow = Flow.read(config)
    assert len(flow.queues) == samples.MAX_QUEUES
    assert raw_redis.zcard("offsider:series:queue_samples") == samples.MAX_QUEUES


def test_the_load_of_the_server_is_that_of_its_own_counters(config, ledger, raw_redis):
    raw_redis.config_set("slowlog-log-slower-than", 100_000)
    for identity, microseconds in (("host:1:aaaaaaaaaaaa", 200), ("host:2:aaaaaaaaaaaa", 900)):
        raw_redis.sadd("processes", identity)
        raw_redis.hset(identity, "rtt_us", microseconds)
    before = raw_redis.info()
    for _ in range(500):
        raw_redis.ping()
    raw_redis.config_set("slowlog-log-slower-than", 0)
    raw_redis.ping()
    raw_redis.config_set("slowlog-log-slower-than", 100_000)
    ledger.sample()
    raw_redis.hset("host:2:aaaaaaaaaaaa", "rtt_us", 300)
    ledger.sample()
    server, after = Flow.read(config).server, raw_redis.info()
    assert (
        500
        <= server.commands_per_second * 20
        <= after["total_commands_processed"] - before["total_commands_processed"] + 20
    )
    assert 0 <= server.cpu_share * 20 <= 10
    assert server.slow_commands in (1, 2)  # the second CONFIG SET may be one
    assert server.memory_bytes == pytest.approx(after["used_memory"], rel=0.2)
    assert server.round_trip_seconds == 0.0009
    assert [each.round_trip_seconds for each in server.minutes if each.round_trip_seconds] == [0.0009]
    for _ in range(6):
        ledger.sample()
    assert [each.round_trip_seconds for each in Flow.read(config).server.minutes[-2:]] == [0.0009, 0.0003]


def test_a_server_that_started_again_has_no_negative_load(config, ledger, raw_redis):
    ledger.sample()
    at, queues, complete, server, minute = json.loads(raw_redis.get("offsider:sample"))
    server[0] = server[1] = 10**15
    raw_redis.set("offsider:sample", json.dumps([at, queues, complete, server, minute]))
    before = Flow.read(config).server.commands_per_second
    ledger.sample()
    assert Flow.read(config).server.commands_per_second == pytest.approx(before / 2)


@pytest.mark.parametrize("fetcher", ["reliable", "basic"])
@pytest.mark.usefixtures("default_config")
def test_a_worker_counts_each_job_that_it_takes(config, raw_redis, fetcher):
    config.worker.fetcher = fetcher
    ran: list[int] = []
    enough = threading.Event()

    @job(queue="other")
    def other(number: int) -> None:
        ran.append(number)
        if len(ran) == 50:
            enough.set()

    other.enqueue_many((number,) for number in range(30))
    config.worker.queues = ["default", "other"]
    with EmbeddedWorker(config):
        wait_for(lambda: len(ran) == 30)
        for number in range(20):
            other.enqueue(number)
        assert enough.wait(30)
        wait_for(lambda: raw_redis.hget("offsider:claimed", "other") == b"50")
        wait_for(lambda: raw_redis.exists("offsider:sample"))
    assert raw_redis.hgetall("offsider:claimed") == {b"other": b"50"}
    assert not raw_redis.exists("offsider:turn:sampler")
