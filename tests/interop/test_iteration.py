"""An iteration that Ruby begins and Python continues, and the reverse; either side cancels the other's."""

from __future__ import annotations

import signal
from collections import Counter
from itertools import cycle, islice

import pytest

from offsider.inspector.work import WorkSet
from tests.interop.waiting import eventually

pytestmark = [pytest.mark.needs("redis-server"), pytest.mark.needs("sidekiq")]

ELEMENTS = 10_000
STOPS = 3
QUEUE = ("-q", "elements", "-c", "1")


@pytest.fixture(autouse=True)
def _has_iterations(sidekiq_at):
    if sidekiq_at.wire_version < 8:
        pytest.skip(f"Sidekiq {sidekiq_at.version} has no IterableJob; OFFSIDER_TEST_SIDEKIQ names one that has")


def start(processes, language: str):
    return processes.sidekiq(*QUEUE) if language == "ruby" else processes.offsider(*QUEUE)


def push(ruby, count: int, pause: float) -> str:
    return ruby("Elements.perform_async(count, pause)", count=count, pause=pause)


def walked(raw_redis, jid: str) -> list[tuple[str, int]]:
    words = [raw.decode().split() for raw in raw_redis.lrange(f"elements:{jid}", 0, -1)]
    return [(language, int(number)) for language, number in words]


@pytest.mark.parametrize("first", ["ruby", "python"])
def test_each_element_is_processed_once_over_stops_of_both_languages(raw_redis, processes, ruby, first):
    jid = push(ruby, ELEMENTS, 0.000_2)
    languages = [*islice(cycle([first, "python" if first == "ruby" else "ruby"]), STOPS + 1)]
    for stop, language in enumerate(languages[:-1], 1):
        process, most = start(processes, language), ELEMENTS * stop // (STOPS + 1)
        eventually(lambda most=most: raw_redis.llen(f"elements:{jid}") >= most, f"{most:,} elements")
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        assert raw_redis.llen("queue:elements") == 1
        assert int(raw_redis.hget(f"it-{jid}", "ex")) == stop
    process = start(processes, languages[-1])
    eventually(lambda: not raw_redis.exists(f"it-{jid}"), "the end of the iteration", 120)
    found = walked(raw_redis, jid)
    assert [number for _, number in found] == [*range(ELEMENTS)]
    assert min(Counter(language for language, _ in found).values()) > ELEMENTS / 10
    process.send_signal(signal.SIGTERM)
    process.wait(30)


@pytest.mark.parametrize("runs", ["ruby", "python"])
def test_the_other_language_cancels_an_iteration(config, raw_redis, processes, ruby, runs):
    jid = push(ruby, 1_000_000, 0.001)
    process = start(processes, runs)
    eventually(lambda: raw_redis.llen(f"elements:{jid}") >= 10, "the first elements")
    if runs == "python":
        ruby("job = Elements.new; job.jid = jid; job.cancel!", jid=jid)
    else:
        work = eventually(lambda: WorkSet(config).find_work(jid), "the job on our pages")
        work.cancel()
    eventually(lambda: not raw_redis.exists(f"it-{jid}"), "the end of the iteration")
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    assert raw_redis.llen("queue:elements") == 0
    assert len(walked(raw_redis, jid)) < 1_000_000
