"""A blocked fetcher claims nothing, however it waits; one that restarts resumes (rule 6)."""

from __future__ import annotations

import threading
import time

import pytest

from offsider.worker.alive.isolation import Isolation
from offsider.worker.fetch.reliable import ReliableFetcher
from offsider.worker.unit_of_work import UnitOfWork
from tests.threads import hammering
from tests.waiting import wait_for


class Threads:
    """Idle threads of a capsule, and their jobs."""

    def __init__(self, fetcher: ReliableFetcher, count: int) -> None:
        self.fetcher = fetcher
        self.units: list = []
        self._threads = [threading.Thread(target=self._take, daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def _take(self) -> None:
        unit = self.fetcher.retrieve()
        if unit is not None:
            self.units.append(unit)

    def end(self) -> None:
        self.fetcher.quiet()
        for thread in self._threads:
            thread.join(10)
        self.fetcher.close()


def pops(raw_redis) -> set[str]:
    """The clients that wait in a pop."""
    return {client["id"] for client in raw_redis.client_list() if "b" in client["flags"]}


@pytest.fixture
def isolation(parts) -> Isolation:
    return parts.isolation


@pytest.fixture
def threads(parts):
    threads = Threads(parts.fetcher, 2)
    yield threads
    threads.end()


def test_while_a_job_is_alone_nothing_is_claimed_and_no_pop_waits(parts, isolation, threads, raw_redis):
    wait_for(lambda: pops(raw_redis))
    raw_redis.lpush(parts.working, "suspect")
    unit = UnitOfWork("default", b"suspect", parts.ownership.owner("default"))
    with isolation.alone(unit) as granted:
        assert granted
        assert not pops(raw_redis)
        raw_redis.lpush("queue:default", "job")
        parts.fetcher.wake()
        parts.fetcher._ticker.tick()
        wait_for(lambda: not parts.fetcher.claims_out)  # the leader was woken, and asks without claiming
        assert (threads.units, raw_redis.llen("queue:default")) == ([], 1)
    wait_for(lambda: [unit.raw for unit in threads.units] == [b"job"])


def test_a_job_moved_by_a_late_pop_is_requeued(parts, isolation, threads, raw_redis):
    wait_for(lambda: pops(raw_redis))
    with isolation._taken:
        raw_redis.lpush("queue:default", "job")
        wait_for(lambda: not pops(raw_redis))
        wait_for(lambda: raw_redis.lrange("queue:default", 0, -1) == [b"job"])
        assert threads.units == []
    parts.fetcher.wake()
    wait_for(lambda: [unit.raw for unit in threads.units] == [b"job"])


def test_a_rebuilt_fetcher_continues_with_new_connections(parts, threads, raw_redis):
    before = wait_for(lambda: pops(raw_redis))
    parts.fetcher.rebuild()
    wait_for(lambda: (now := pops(raw_redis)) and not now & before)
    raw_redis.lpush("queue:default", "job")
    wait_for(lambda: [unit.raw for unit in threads.units] == [b"job"])
    assert parts.errors == []


def test_claims_out_may_be_asked_while_the_leader_blocks_on_other_queues(parts, threads, raw_redis):
    """A suspect job asks while it waits to be alone; an error here would end its thread."""
    fleeting = [f"q{number}" for number in range(12)]
    ends = time.monotonic() + 1.5
    with hammering(*[lambda: parts.fetcher.claims_out] * 2) as errors:
        while time.monotonic() < ends and not errors:
            parts.capsule.settings.queues = ["default"] if len(parts.capsule.queues) > 1 else ["default", *fleeting]
            parts.fetcher.wake()
    assert errors == []
    raw_redis.lpush("queue:default", "job")
    wait_for(lambda: [unit.raw for unit in threads.units] == [b"job"])
