"""A worker whose server is milliseconds away: how far it fetches ahead, and that other processes do not wait for it."""

from __future__ import annotations

import threading
import time

import pytest

from bench.compare.delay import DelayProxy
from offsider.jobs import registry
from offsider.storage import working
from offsider.storage.pipelined import Pipelined
from offsider.worker import outage
from offsider.worker.fetch import line, prefetch_size, ticker
from tests.faults import FaultProxy
from tests.redis.worker.conftest import make_config
from tests.redis.worker.crew import Crew, Work, payload, push
from tests.redis.worker.test_fetcher_rules import SOON_SECONDS, FarAhead, exchanges
from tests.waiting import wait_for

pytestmark = pytest.mark.not_on_cluster("its nodes redirect clients past a proxy that delays")


@pytest.fixture
def work():
    with registry.isolated():
        work = Work()
        work.declare()
        yield work


@pytest.fixture
def make_crew(redis_url, work):
    crews: list[Crew] = []
    proxies: dict[float, DelayProxy] = {}

    def make(rtt_ms: float = 0.0, **options) -> Crew:
        if rtt_ms and rtt_ms not in proxies:
            proxies[rtt_ms] = DelayProxy(redis_url, rtt_ms=rtt_ms)
        crews.append(Crew(make_config(proxies[rtt_ms].url if rtt_ms else redis_url), **options))
        return crews[-1]

    yield make
    for crew in crews:
        crew.stop()
    for proxy in proxies.values():
        proxy.close()


@pytest.fixture
def event():
    """What a job waits for; set at the end of the test in any case."""
    event = threading.Event()
    yield event
    event.set()


def test_no_ops_take_one_round_trip_for_many(make_crew, work, raw_redis, monkeypatch):
    """The measure is the same drain with a prefetch that leaves the round trip out: load slows down both."""
    jobs = 700

    def scripts() -> int:
        work.runs.clear()
        raw_redis.config_resetstat()
        push(raw_redis, *range(jobs))
        crew = make_crew(10, concurrency=2).start()
        wait_for(lambda: len(work.runs) == jobs)
        wait_for(lambda: crew.counted() == jobs)
        crew.stop()
        return exchanges(raw_redis)

    scripts()  # the first one also pays for imports
    counted = without = 0
    for _ in range(3):
        counted += scripts()
        with monkeypatch.context() as patched:
            patched.setattr(prefetch_size, "FARTHEST_SECONDS", 0.0)
            without += scripts()
    print(f"{counted} scripts, and {without} when the round trip does not count")
    assert counted < 0.85 * without  # half on a quiet machine


@pytest.mark.parametrize("rtt_ms", [0, 5])
def test_the_round_trip_is_measured_by_regular_requests(make_crew, work, raw_redis, rtt_ms):
    crew = make_crew(rtt_ms, queues=("default", "other")).start()
    for number in range(20):
        wait_for(lambda: crew.idle)
        push(raw_redis, number)
        wait_for(lambda number=number: len(work.runs) == number + 1)
    measured = crew.fetcher._line.claims.prefetch.round_trip_seconds
    print(f"{measured * 1000:.3f} ms")
    assert rtt_ms / 1000 < measured < 2 * rtt_ms / 1000 + 0.01  # a busy machine adds some milliseconds


@pytest.mark.parametrize("fault", ["lose_reply", "lose_request", "reset"])
def test_a_connection_that_fails_under_several_requests_loses_and_doubles_no_job(
    redis_url, work, raw_redis, monkeypatch, fault
):
    monkeypatch.setattr(line, "SECOND_LOOK_SECONDS", 0.1)
    monkeypatch.setattr(outage, "RETRY_SECONDS", 0.01)
    jobs, depths, faults = 3000, [], []
    under_way = Pipelined.ask

    def ask(ahead, *given) -> None:
        under_way(ahead, *given)
        depths.append(ahead._wire.awaited)
        if depths[-1] >= 2 and len(depths) - sum(faults[-1:]) >= 10:
            faults.append(len(depths))
            proxy.reset() if fault == "reset" else getattr(proxy, fault)(working.ACK_AND_CLAIM.sha.encode())

    with DelayProxy(redis_url, rtt_ms=5) as distance, FaultProxy(distance.url) as proxy:
        crew = Crew(make_config(proxy.url), concurrency=4).start()
        push(raw_redis, *range(50))
        wait_for(lambda: crew.counted() == 50)
        monkeypatch.setattr(Pipelined, "ask", ask)
        push(raw_redis, *range(50, jobs))
        wait_for(lambda: crew.counted() == jobs, 60)
        wait_for(lambda: crew.private(raw_redis) == [], 10)
        crew.stop()
    print(f"at most {max(depths)} under way, {len(faults)} faults")
    assert faults
    assert sorted(work.numbers) == list(range(jobs))
    assert crew.errors


@pytest.fixture(params=[None, 0.3], ids=["usual ticks", "slow ticks"])
def tick_seconds(request, monkeypatch):
    """On a busy machine usual ticks leave little to requeue; slow ones leave all that may be fetched ahead."""
    if request.param:
        monkeypatch.setattr(ticker, "TICK_SECONDS", request.param)
    return request.param


def test_jobs_prefetched_before_a_long_job_run_elsewhere_in_order(make_crew, work, event, raw_redis, tick_seconds):
    """The ticker requeues all of it in one step: a waiting process would start the newest first."""
    jobs, long_one = 600, 100
    pause_seconds = tick_seconds / 15 if tick_seconds else 0.003
    ahead: list[bytes] = []

    def stall() -> None:
        ahead.extend(unit.raw for unit in stalled.fetcher._prefetched.ready)
        event.wait()

    work.does |= dict.fromkeys(range(95, long_one), lambda: time.sleep(pause_seconds))  # more arrive during it
    work.does[long_one] = stall
    for _ in range(5):  # a busy machine is slower, and may fetch none ahead
        stalled, free = make_crew(1), make_crew()
        stalled.fetcher._line.claims.prefetch = FarAhead(500)
        push(raw_redis, *range(jobs))
        stalled.start()
        wait_for(lambda: len(work.runs) > long_one)
        began_at = work.runs[long_one].at
        free.start()
        wait_for(lambda: len(work.runs) == jobs)
        begun = {payload(run.number): run.at - began_at for run in work.runs}
        if len(ahead) >= (50 if tick_seconds else 1):
            break
        event.set()
        stalled.stop()
        free.stop()
        event.clear()
        ahead.clear()
        work.runs.clear()
    late = max(begun[raw] for raw in ahead)
    print(f"{len(ahead)} jobs behind a long one had all begun after {late * 1000:.0f} ms")
    assert late < SOON_SECONDS
    assert sorted(ahead, key=begun.__getitem__) == ahead
