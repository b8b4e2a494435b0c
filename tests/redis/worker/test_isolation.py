"""A suspect runs alone, or moves to the tail of its queue (rule 6)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from offsider.core.payload import encode
from offsider.storage import working
from offsider.worker.alive.isolation import Isolation
from offsider.worker.unit_of_work import UnitOfWork
from tests.waiting import wait_for

JID = "a" * 24
RAW = encode({"class": "Pill", "args": [], "jid": JID, "queue": "default", "interrupted_count": 2})
STRIKES = f"offsider:strikes:{JID}"


class Fetcher:
    """A fetcher as `Isolation` sees it."""

    def __init__(self) -> None:
        self.claims_out = False
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


class Stage:
    """A launcher with the capsules ``default`` and ``slow``."""

    def __init__(self, parts, raw_redis) -> None:
        self.parts, self.raw_redis = parts, raw_redis
        self.fetcher = Fetcher()
        self.leaving = False
        self.isolation = self.make()

    def make(self, *, max_strikes: int = 3, patience_seconds: float = 20.0) -> Isolation:
        isolation = Isolation(
            self.parts.redis,
            lambda: {"default": ("default",), "slow": ("low",)},
            max_strikes=max_strikes,
            leaving=lambda: self.leaving,
            patience_seconds=patience_seconds,
        )
        isolation.join(self.fetcher)
        return isolation

    def strike(self, times: int) -> None:
        now = self.raw_redis.time()[0]
        self.raw_redis.zadd(STRIKES, {f"host:{n}:dddddddddddd": now - n for n in range(times)})

    def unit(self, raw: bytes = RAW) -> Any:
        return UnitOfWork("default", raw, working.Owner(self.parts.ownership.identity, "default"))

    def claimed(self, raw: bytes = RAW) -> Any:
        self.raw_redis.lpush(self.parts.working, raw)
        return self.unit(raw)

    @property
    def elsewhere(self) -> str:
        """The private list of the other capsule."""
        return self.parts.redis.keys.working(self.parts.ownership.identity, "slow", "low")


@pytest.fixture
def stage(parts, raw_redis) -> Stage:
    return Stage(parts, raw_redis)


# ------------------------------------------------------------------------------------- suspects


def test_the_setting_decides_how_many_strikes_make_a_suspect(stage):
    stage.strike(1)
    assert stage.make(max_strikes=1).is_suspect(stage.unit())
    assert stage.make(max_strikes=2).is_suspect(stage.unit())
    stage.strike(3)
    assert stage.make(max_strikes=4).is_suspect(stage.unit())
    assert not stage.make(max_strikes=5).is_suspect(stage.unit())
    assert not stage.make(max_strikes=0).is_suspect(stage.unit())
    assert not stage.make(max_strikes=-1).is_suspect(stage.unit())


def test_a_job_that_was_never_interrupted_costs_no_command(stage, proxied, proxy):
    proxy.refuse()
    stage.parts = proxied
    assert not stage.make().is_suspect(stage.unit(encode({"class": "Good", "args": [], "jid": JID})))
    assert proxied.redis.troubles == 0


# ---------------------------------------------------------------------------------------- alone


def test_a_suspect_that_is_already_alone_starts_and_blocks_other_jobs(stage):
    assert stage.isolation.claims_allowed()
    with stage.isolation.alone(stage.claimed()) as granted:
        assert granted
        assert not stage.isolation.claims_allowed()
        assert stage.fetcher.woken == 1
    assert stage.isolation.claims_allowed()
    assert stage.fetcher.woken == 2


def test_after_an_error_in_the_block_the_fetchers_resume(stage):
    with pytest.raises(RuntimeError), stage.isolation.alone(stage.claimed()):
        raise RuntimeError
    assert stage.isolation.claims_allowed()


class Waiter:
    """A thread that wants its job to be alone."""

    def __init__(self, isolation: Isolation, unit: Any) -> None:
        self.granted: list[bool] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(isolation, unit), daemon=True)
        self._thread.start()

    def _run(self, isolation: Isolation, unit: Any) -> None:
        with isolation.alone(unit) as granted:
            self.granted.append(granted)
            self._done.wait(20)

    def end(self) -> None:
        self._done.set()
        self._thread.join(20)


def test_it_waits_for_the_jobs_of_all_capsules(stage, raw_redis):
    raw_redis.lpush(stage.elsewhere, "a long job")
    waiter = Waiter(stage.isolation, stage.claimed())
    wait_for(lambda: not stage.isolation.claims_allowed())
    assert waiter.granted == []
    raw_redis.delete(stage.elsewhere)
    wait_for(lambda: waiter.granted == [True])
    waiter.end()


def test_it_waits_for_claims_that_are_out(stage):
    stage.fetcher.claims_out = True
    waiter = Waiter(stage.isolation, stage.claimed())
    wait_for(lambda: not stage.isolation.claims_allowed())
    assert waiter.granted == []
    stage.fetcher.claims_out = False
    wait_for(lambda: waiter.granted == [True])
    waiter.end()


def test_its_patience_ends(stage, raw_redis):
    raw_redis.lpush(stage.elsewhere, "a long job")
    with stage.make(patience_seconds=0.05).alone(stage.claimed()) as granted:
        assert not granted


def test_a_second_suspect_does_not_wait_for_the_first(stage):
    """Each would wait for the other to end."""
    with stage.isolation.alone(stage.claimed()) as granted:
        assert granted
        with stage.isolation.alone(stage.unit()) as second:
            assert not second
        assert not stage.isolation.claims_allowed()
        assert stage.fetcher.woken == 1


def test_a_worker_that_leaves_does_not_wait(stage, raw_redis):
    raw_redis.lpush(stage.elsewhere, "a long job")
    waiter = Waiter(stage.isolation, stage.claimed())
    wait_for(lambda: not stage.isolation.claims_allowed())
    stage.leaving = True
    wait_for(lambda: waiter.granted == [False])
    waiter.end()


def test_during_an_outage_no_suspect_is_isolated(stage, proxied, proxy):
    proxy.refuse()
    stage.parts = proxied
    with stage.make(patience_seconds=0.05).alone(stage.unit()) as granted:
        assert not granted
