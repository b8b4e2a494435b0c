"""A worker whose server is milliseconds away: how far it fetches ahead, and that other processes do not wait for it."""

from __future__ import annotations

from contextlib import closing

import pytest

from bench.compare.delay import DelayProxy
from offsider.jobs import registry
from offsider.runtime import outage
from offsider.storage import working
from offsider.storage.working import Pipelined
from offsider.worker.fetch import line, state
from tests.faults import FaultProxy
from tests.redis.worker.capsule_threads import CapsuleThreads, Work, push
from tests.redis.worker.conftest import make_config
from tests.redis.worker.test_fetcher_rules import exchanges
from tests.waiting import wait_for

pytestmark = pytest.mark.not_on_cluster("its nodes redirect clients past a proxy that delays")


@pytest.fixture
def work():
    with registry.isolated():
        work = Work()
        work.declare()
        yield work


@pytest.fixture
def make_capsule(redis_url, work):
    capsules: list[CapsuleThreads] = []
    proxies: dict[float, DelayProxy] = {}

    def make(rtt_ms: float = 0.0, **options) -> CapsuleThreads:
        if rtt_ms and rtt_ms not in proxies:
            proxies[rtt_ms] = DelayProxy(redis_url, rtt_ms=rtt_ms)
        capsules.append(CapsuleThreads(make_config(proxies[rtt_ms].url if rtt_ms else redis_url), **options))
        return capsules[-1]

    yield make
    for capsule in capsules:
        capsule.stop()
    for proxy in proxies.values():
        proxy.close()


def test_no_ops_take_one_round_trip_for_many(make_capsule, work, raw_redis, monkeypatch):
    """The measure is the same drain with a prefetch that leaves the round trip out: load slows down both."""
    jobs = 300

    def scripts() -> int:
        work.runs.clear()
        raw_redis.config_resetstat()
        push(raw_redis, *range(jobs))
        capsule = make_capsule(10, concurrency=2).start()
        wait_for(lambda: len(work.runs) == jobs)
        wait_for(lambda: capsule.counted() == jobs)
        capsule.stop()
        return exchanges(raw_redis)

    scripts()  # the first one also pays for imports
    counted = without = 0
    for _ in range(2):
        counted += scripts()
        with monkeypatch.context() as patched:
            patched.setattr(line, "MAX_ROUND_TRIPS_SECONDS", 0.0)
            without += scripts()
    print(f"{counted} scripts, and {without} when the round trip does not count")
    assert counted < 0.85 * without  # half on a quiet machine


@pytest.mark.parametrize("rtt_ms", [0, 5])
def test_the_round_trip_is_measured_by_regular_requests(make_capsule, work, raw_redis, rtt_ms):
    capsule = make_capsule(rtt_ms, queues=("default", "other")).start()
    for number in range(20):
        wait_for(lambda: capsule.idle)
        push(raw_redis, number)
        wait_for(lambda number=number: len(work.runs) == number + 1)
    measured = capsule.fetcher._line.claims.prefetch.round_trip_seconds
    print(f"{measured * 1000:.3f} ms")
    assert rtt_ms / 1000 < measured < 2 * rtt_ms / 1000 + 0.01  # a busy machine adds some milliseconds


@pytest.mark.parametrize("fault", ["lose_reply", "lose_request", "reset"])
def test_a_connection_that_fails_under_several_requests_loses_and_doubles_no_job(
    redis_url, work, raw_redis, monkeypatch, fault
):
    monkeypatch.setattr(state, "SECOND_CHECK_SECONDS", 0.1)
    monkeypatch.setattr(outage, "RETRY_SECONDS", 0.01)
    jobs, depths, faults = 1500, [], []
    under_way = Pipelined.ask

    def ask(ahead, *given) -> None:
        under_way(ahead, *given)
        depths.append(ahead._wire.awaited)
        if depths[-1] >= 2 and len(depths) - sum(faults[-1:]) >= 10:
            faults.append(len(depths))
            proxy.reset() if fault == "reset" else getattr(proxy, fault)(working.ACK_AND_CLAIM.sha.encode())

    with closing(DelayProxy(redis_url, rtt_ms=5)) as distance, FaultProxy(distance.url) as proxy:
        capsule = CapsuleThreads(make_config(proxy.url), concurrency=4).start()
        push(raw_redis, *range(50))
        wait_for(lambda: capsule.counted() == 50)
        monkeypatch.setattr(Pipelined, "ask", ask)
        push(raw_redis, *range(50, jobs))
        wait_for(lambda: capsule.counted() == jobs, 60)
        wait_for(lambda: capsule.private(raw_redis) == [])
        capsule.stop()
    print(f"at most {max(depths)} under way, {len(faults)} faults")
    assert faults
    assert sorted(work.numbers) == list(range(jobs))
    assert capsule.errors
