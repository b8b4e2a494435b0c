"""A capsule under all kinds of faults in any order: no job is lost, duplicated or unreported.

The machine pushes jobs that end in different ways, loses replies and requests of scripts, resets connections, kills
waiting pops, pauses queues and declares the capsule dead. Then it waits until the capsule is idle and counts:

1. Each job is only where its outcome puts it: deleted, in `retry` or in `schedule`.
2. Each has run once, plus at most twice for each time that the capsule was declared dead: the current run, and that of
   a pop that still waited under the old identity when the job was requeued.
3. Each run was counted, or reported as lost.
4. Nothing is left in a private list, in a queue, or in the capsule's own books.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from offsider import Discard, Reschedule, Skip
from offsider.config.installation import Installation
from offsider.core.errors import RedisFailure
from offsider.core.payload import decode, encode
from offsider.jobs import registry
from offsider.runtime import outage
from offsider.storage import strikes, working
from offsider.storage.working import Owner, PrivateListEntry
from offsider.worker.fetch import line, state
from tests.faults import FaultProxy
from tests.redis.worker.capsule_threads import CapsuleThreads, Work
from tests.redis.worker.conftest import make_config
from tests.tagged import client_of
from tests.waiting import wait_for

QUEUES = ("high", "low")
SCRIPTS = (working.ACK_AND_CLAIM, working.SETTLE, working.REQUEUE)
ALL_LISTS = """
local all = {}
for _, pattern in ipairs({"queue:*", "offsider:working:*"}) do
  for _, key in ipairs(redis.call("KEYS", ARGV[1] .. pattern)) do
    for _, raw in ipairs(redis.call("LRANGE", key, 0, -1)) do
      all[#all + 1] = raw
    end
  end
end
return all
"""
#: How a job ends, and where it is then to be found; None: nowhere.
ENDINGS = {"fast": None, "slow": None, "skip": None, "drop": None, "fail": "retry", "again": "schedule"}


class Machine(RuleBasedStateMachine):
    """One capsule on an empty server, behind a proxy that injects faults on request."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.client = client_of(url)
        self.client.flushall()
        for script in SCRIPTS:
            self.client.script_load(script.text)
        self.isolation = registry.isolated()
        self.isolation.__enter__()
        self.work = Work()
        self.work.declare()
        self.proxy = FaultProxy(url)
        self.proxy.__enter__()
        self.capsule = CapsuleThreads(make_config(self.proxy.url), concurrency=3, queues=QUEUES).start()
        self.sweeper = Installation.of(make_config(url)).make_redis(1)
        self.numbers = itertools.count()
        self.pushed: dict[int, str] = {}
        self.fenced: list[str] = []

    # --- what users do ---------------------------------------------------------------------------

    @rule(endings=st.lists(st.sampled_from(sorted(ENDINGS)), min_size=1, max_size=12), queue=st.sampled_from(QUEUES))
    def push(self, endings: list[str], queue: str) -> None:
        payloads = []
        for ending in endings:
            number = next(self.numbers)
            self.pushed[number] = ending
            self.work.does[number] = DEEDS[ending]
            payloads.append(encode({"class": "J", "args": [number], "jid": f"{number:024x}", "retry": True}))
        self.client.lpush(f"queue:{queue}", *payloads)

    @rule(queue=st.sampled_from(QUEUES))
    def pause(self, queue: str) -> None:
        self.client.sadd("paused", queue)

    @rule()
    def unpause(self) -> None:
        self.client.delete("paused")
        self.capsule.fetcher.wake()

    # ------------------------------------------------------------------------------------------ faults

    @rule(script=st.sampled_from(SCRIPTS))
    def lose_a_reply(self, script) -> None:
        self.proxy.lose_reply(script.sha.encode())

    @rule(script=st.sampled_from(SCRIPTS))
    def lose_a_request(self, script) -> None:
        self.proxy.lose_request(script.sha.encode())

    @rule()
    def reset_connections(self) -> None:
        self.proxy.reset()

    @rule()
    def kill_waiting_pops(self) -> None:
        for client in self.client.client_list():
            if "b" in client["flags"]:
                self.client.client_kill_filter(_id=client["id"])

    @rule()
    def declare_dead(self) -> None:
        identity = self.capsule.parts.ownership.identity
        if identity not in self.fenced:
            self.fenced.append(identity)
            self.client.set(self.capsule.parts.redis.keys.fenced(identity), "0 0")

    @rule(milliseconds=st.integers(0, 20))
    def let_it_work(self, milliseconds: int) -> None:
        time.sleep(milliseconds / 1000)

    # --- the reckoning -----------------------------------------------------------------------------

    @rule()
    def come_to_rest(self) -> None:
        self.client.delete("paused")
        self.capsule.fetcher.wake()
        try:
            wait_for(self._at_rest)
        except AssertionError:
            raise AssertionError(f"the capsule does not come to rest: {self._state()}") from None
        self._reckon()

    def _at_rest(self) -> bool:
        with suppress(RedisFailure):  # a beat's own connection may be the one that breaks
            self.capsule.fetcher.audit()
        self._take_back()
        return self._left() == [] and self.capsule.idle and not self.capsule.fetcher._unacknowledged.unsent

    def _state(self) -> dict[str, object]:
        fetcher = self.capsule.fetcher
        books = {
            "ready": len(fetcher._prefetched.ready),
            "excess": len(fetcher._prefetched.excess),
            "unsent": len(fetcher._unacknowledged.unsent),
        }
        waiting = fetcher._wait
        return books | {
            "left": {key: self.client.lrange(key, 0, -1) for key in self._lists()},
            "identity": (self.capsule.parts.ownership.identity, self.fenced),
            "idle_count": fetcher.idle_count,
            "asleep": waiting.asleep,
            "parked": [pop.queue for pop in waiting.pops.waiting],
            "due": fetcher._state.reconciler.due,
            "errors": [str(error) for error, _ in self.capsule.errors][-3:],
        }

    def _take_back(self) -> None:
        """What a sweeper does with the jobs of the dead."""
        for identity, queue in itertools.product(self.fenced, QUEUES):
            owner = Owner(identity, "default")
            for raw in self.client.lrange(self.sweeper.keys.working(identity, "default", queue), 0, -1):
                strikes.reclaim(self.sweeper, [(PrivateListEntry(owner, queue, raw), raw)])

    def _left(self) -> list[bytes]:
        """What still waits or is under way. One script, because a job that moves between two reads is in neither."""
        return self.client.eval(ALL_LISTS, 0, self.sweeper.keys.prefix)

    def _lists(self) -> list[bytes]:
        return [key for pattern in ("queue:*", "offsider:working:*") for key in self.client.keys(pattern)]

    def _reckon(self) -> None:
        stored = Counter(
            (where, decode(raw)["args"][0])
            for where in ("retry", "schedule", "dead")
            for raw in self.client.zrange(where, 0, -1)
        )
        expected = {(ENDINGS[ending], number) for number, ending in self.pushed.items() if ENDINGS[ending]}
        assert stored == Counter(expected)
        runs = Counter(self.work.numbers)
        assert set(runs) == set(self.pushed), "every job has run"
        assert max(runs.values(), default=0) <= 1 + 2 * len(self.fenced)
        wait_for(
            lambda: self.capsule.counted() + len(self.capsule.lost) == runs.total(), 5, "every run is counted or lost"
        )
        if not self.fenced:
            assert self.capsule.lost == []
        fetcher = self.capsule.fetcher
        assert not fetcher._state.in_flight._units
        assert not fetcher._prefetched.ready
        assert not fetcher._prefetched.excess
        assert not fetcher._line.under_way

    def teardown(self) -> None:
        try:
            self.come_to_rest()
        finally:
            self.capsule.stop()
            self.proxy.__exit__()
            self.isolation.__exit__(None, None, None)
            self.sweeper.close()
            self.client.close()


def fail() -> None:
    raise ValueError("fails")


def again() -> None:
    raise Reschedule(3600)


def skip() -> None:
    raise Skip("enough")


def drop() -> None:
    raise Discard("no use")


DEEDS = {
    "fast": lambda: None,
    "slow": lambda: time.sleep(0.003),
    "skip": skip,
    "drop": drop,
    "fail": fail,
    "again": again,
}


@pytest.fixture
def short_delays(monkeypatch):
    """Shortens the delays of production."""
    monkeypatch.setattr(state, "SECOND_CHECK_SECONDS", 0.1)
    monkeypatch.setattr(outage, "RETRY_SECONDS", 0.01)


@pytest.mark.parametrize("distance", ["near", "far"])
def test_no_job_is_lost_and_none_is_in_two_places(redis_url, short_delays, distance, monkeypatch):
    if distance == "far":  # then several requests are under way, also for few jobs
        monkeypatch.setattr(line, "DISTANT_SECONDS", 0.0)
        monkeypatch.setattr(line, "MIN_AHEAD", 2)
    run_state_machine_as_test(
        lambda: Machine(redis_url),
        settings=settings(
            max_examples=12,
            stateful_step_count=20,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
