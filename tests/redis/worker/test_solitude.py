"""A suspect runs alone, or goes to the far end (rule 6)."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from offsider.core.payload import encode
from offsider.storage import working
from offsider.worker.solitude import Solitude
from tests.waiting import wait_for

JID = "a" * 24
RAW = encode({"class": "Pill", "args": [], "jid": JID, "queue": "default", "interrupted_count": 2})
STRIKES = f"offsider:strikes:{JID}"


class Claimer:
    """A fetcher as `Solitude` sees it."""

    def __init__(self) -> None:
        self.claims_out = False
        self.reconsidered = 0

    def reconsider(self) -> None:
        self.reconsidered += 1


class Stage:
    """A launcher with the capsules ``default`` and ``slow``."""

    def __init__(self, parts, raw_redis) -> None:
        self.parts, self.raw_redis = parts, raw_redis
        self.claimer = Claimer()
        self.leaving = False
        self.solitude = self.make()

    def make(self, *, max_strikes: int = 3, patience_seconds: float = 20.0) -> Solitude:
        solitude = Solitude(
            self.parts.redis,
            lambda: {"default": ("default",), "slow": ("low",)},
            max_strikes=max_strikes,
            leaving=lambda: self.leaving,
            patience_seconds=patience_seconds,
        )
        solitude.join(self.claimer)
        return solitude

    def strike(self, times: int) -> None:
        now = self.raw_redis.time()[0]
        self.raw_redis.zadd(STRIKES, {f"host:{n}:dddddddddddd": now - n for n in range(times)})

    def unit(self, raw: bytes = RAW) -> Any:
        entry = working.Entry(working.Owner(self.parts.ownership.identity, "default"), "default", raw)
        return SimpleNamespace(queue="default", raw=raw, entry=entry)

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


def test_two_strikes_make_a_suspect(stage):
    assert not stage.solitude.is_suspect(stage.unit())
    stage.strike(1)
    assert not stage.solitude.is_suspect(stage.unit())
    stage.strike(2)
    assert stage.solitude.is_suspect(stage.unit())


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


def test_a_unit_without_a_private_list_is_none(stage):
    stage.strike(2)
    assert not stage.solitude.is_suspect(SimpleNamespace(queue="default", raw=RAW, entry=None))


def test_while_nobody_can_tell_the_job_runs(stage, proxied, proxy):
    stage.strike(2)
    proxy.refuse()
    stage.parts = proxied
    assert not stage.make().is_suspect(stage.unit())


# ---------------------------------------------------------------------------------------- alone


def test_whoever_is_alone_already_runs_at_once_and_holds_back_all_else(stage):
    assert stage.solitude.claims_allowed()
    with stage.solitude.alone(stage.claimed()) as granted:
        assert granted
        assert not stage.solitude.claims_allowed()
        assert stage.claimer.reconsidered == 1
    assert stage.solitude.claims_allowed()
    assert stage.claimer.reconsidered == 2


def test_an_error_in_the_block_lets_the_others_go_on(stage):
    with pytest.raises(RuntimeError), stage.solitude.alone(stage.claimed()):
        raise RuntimeError
    assert stage.solitude.claims_allowed()


class Waiter:
    """A thread that wants its job to be alone."""

    def __init__(self, solitude: Solitude, unit: Any) -> None:
        self.granted: list[bool] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(solitude, unit), daemon=True)
        self._thread.start()

    def _run(self, solitude: Solitude, unit: Any) -> None:
        with solitude.alone(unit) as granted:
            self.granted.append(granted)
            self._done.wait(20)

    def end(self) -> None:
        self._done.set()
        self._thread.join(20)


def test_it_waits_for_the_jobs_of_all_capsules(stage, raw_redis):
    raw_redis.lpush(stage.elsewhere, "a long job")
    waiter = Waiter(stage.solitude, stage.claimed())
    wait_for(lambda: not stage.solitude.claims_allowed())
    assert waiter.granted == []
    raw_redis.delete(stage.elsewhere)
    wait_for(lambda: waiter.granted == [True])
    waiter.end()


def test_it_waits_for_claims_that_are_out(stage):
    stage.claimer.claims_out = True
    waiter = Waiter(stage.solitude, stage.claimed())
    wait_for(lambda: not stage.solitude.claims_allowed())
    assert waiter.granted == []
    stage.claimer.claims_out = False
    wait_for(lambda: waiter.granted == [True])
    waiter.end()


def test_its_patience_ends(stage, raw_redis):
    raw_redis.lpush(stage.elsewhere, "a long job")
    with stage.make(patience_seconds=0.05).alone(stage.claimed()) as granted:
        assert not granted


def test_a_second_suspect_does_not_wait_for_the_first(stage):
    """Each would wait for the other to end."""
    with stage.solitude.alone(stage.claimed()) as granted:
        assert granted
        with stage.solitude.alone(stage.unit()) as second:
            assert not second
        assert not stage.solitude.claims_allowed()
        assert stage.claimer.reconsidered == 1


def test_a_worker_that_leaves_does_not_wait(stage, raw_redis):
    raw_redis.lpush(stage.elsewhere, "a long job")
    waiter = Waiter(stage.solitude, stage.claimed())
    wait_for(lambda: not stage.solitude.claims_allowed())
    stage.leaving = True
    wait_for(lambda: waiter.granted == [False])
    waiter.end()


def test_while_the_server_is_away_nobody_is_alone(stage, proxied, proxy):
    proxy.refuse()
    stage.parts = proxied
    with stage.make(patience_seconds=0.05).alone(stage.unit()) as granted:
        assert not granted


# ------------------------------------------------------------------------------------- put last


def test_the_far_end_is_behind_all_that_wait(stage, raw_redis):
    raw_redis.lpush("queue:default", "first", "second")
    stage.solitude.put_last(stage.claimed())
    assert raw_redis.lrange("queue:default", 0, -1) == [RAW, b"second", b"first"]
    assert not raw_redis.exists(stage.parts.working)
    assert b"default" in raw_redis.smembers("queues")


def test_a_job_that_is_somebody_elses_by_now_stays_theirs(stage, raw_redis):
    unit = stage.claimed()
    raw_redis.set(stage.parts.redis.keys.fenced(stage.parts.ownership.identity), "1 1")
    stage.solitude.put_last(unit)
    assert not raw_redis.exists("queue:default")
