"""A fetcher that is held back claims nothing, whatever way it waits; and one that begins anew goes on (rule 6)."""

from __future__ import annotations

import threading

import pytest

from offsider.worker.fetcher import ReliableFetcher
from offsider.worker.solitude import Claimer, Solitude
from offsider.worker.unit_of_work import UnitOfWork
from offsider.worker.watchdog import Watched
from tests.waiting import wait_for


class Threads:
    """Idle threads of a capsule, and what they got."""

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


def parks(raw_redis) -> set[str]:
    """The clients that wait in a pop."""
    return {client["id"] for client in raw_redis.client_list() if "b" in client["flags"]}


@pytest.fixture
def solitude(parts) -> Solitude:
    solitude = Solitude(parts.redis, lambda: {"default": ("default",)}, max_strikes=3, leaving=lambda: False)
    solitude.join(parts.fetcher)
    return solitude


@pytest.fixture
def threads(parts):
    threads = Threads(parts.fetcher, 2)
    yield threads
    threads.end()


def test_the_reliable_fetcher_takes_part(parts):
    assert isinstance(parts.fetcher, Claimer)
    assert isinstance(parts.fetcher, Watched)


def test_while_a_job_is_alone_nothing_is_claimed_and_no_pop_waits(parts, solitude, threads, raw_redis):
    wait_for(lambda: parks(raw_redis))
    raw_redis.lpush(parts.working, "suspect")
    unit = UnitOfWork("default", b"suspect", parts.ownership.owner("default"))
    with solitude.alone(unit) as granted:
        assert granted
        assert not parks(raw_redis)
        raw_redis.lpush("queue:default", "job")
        parts.fetcher.reconsider()
        parts.fetcher.tick()
        wait_for(lambda: not parts.fetcher.claims_out)  # the leader was woken, and asks without claiming
        assert (threads.units, raw_redis.llen("queue:default")) == ([], 1)
    wait_for(lambda: [unit.raw for unit in threads.units] == [b"job"])


def test_a_park_that_brings_a_job_all_the_same_gives_it_back(parts, solitude, threads, raw_redis):
    wait_for(lambda: parks(raw_redis))
    with solitude._taken:
        raw_redis.lpush("queue:default", "job")
        wait_for(lambda: not parks(raw_redis))
        wait_for(lambda: raw_redis.lrange("queue:default", 0, -1) == [b"job"])
        assert threads.units == []
    parts.fetcher.reconsider()
    wait_for(lambda: [unit.raw for unit in threads.units] == [b"job"])


def test_a_fetcher_that_begins_anew_goes_on_with_new_connections(parts, threads, raw_redis):
    before = wait_for(lambda: parks(raw_redis))
    parts.fetcher.rebuild()
    wait_for(lambda: (now := parks(raw_redis)) and not now & before)
    raw_redis.lpush("queue:default", "job")
    wait_for(lambda: [unit.raw for unit in threads.units] == [b"job"])
    assert parts.errors == []
