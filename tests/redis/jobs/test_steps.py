"""What the steps of a run read and store: by its owner, by another process, in an outage, after a change of code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from offsider import (
    Client,
    InvalidJob,
    JobContext,
    RedisUnavailable,
    RunInterrupted,
    SignalTimeout,
    Skip,
    asignal,
    astep,
    await_for,
    job,
    signal,
    step,
    wait_for,
)
from offsider.config.installation import Installation
from offsider.core.errors import Waiting
from offsider.jobs import registry
from offsider.jobs.clients import pushing_with
from offsider.runtime.context import running
from offsider.storage import steps
from offsider.storage.working import Owner

IDENTITY = "host:1:aaaaaaaaaaaa"
RAW = b'{"class":"Fulfil","jid":"1","args":[]}'


@pytest.fixture
def run(config, raw_redis) -> Callable[..., Any]:
    """A run of job 1, which is in the private list of this process."""
    raw_redis.lpush(Installation.of(config).redis.keys.working(IDENTITY, "default", "default"), RAW)

    @contextmanager
    def run(**more: Any) -> Iterator[JobContext]:
        context = JobContext(
            {"class": "Fulfil", "jid": "1", "args": []}, "default", RAW, owner=Owner(IDENTITY, "default"), **more
        )
        with running(context), pushing_with(Client(config)):
            yield context

    return run


def double(number: int) -> int:
    return 2 * number


def triple(number: int) -> int:
    return 3 * number


def test_a_later_run_does_not_repeat_a_step(run, config, raw_redis):
    with run():
        assert step("a", double, 21) == 42
        assert step("none", lambda: None) is None
    with run():
        assert step("a", double, 5) == 42
        assert step("none", lambda: None) is None
    seen = steps.read(Installation.of(config).redis, "1").steps
    assert [(name, one.value) for name, one in seen.items()] == [("a", 42), ("none", None)]
    assert seen["a"].function == f"{__name__}.double"
    assert raw_redis.ttl("offsider:steps:1") > 15_000_000


def test_a_result_is_the_same_in_the_run_that_stores_it_and_in_later_ones(run):
    for _ in range(2):
        with run():
            assert step("pair", divmod, 7, 2) == [3, 1]


def test_another_function_does_not_get_the_result_of_a_former_one(run):
    with run():
        step("a", double, 21)
    with (
        run(),
        pytest.raises(InvalidJob, match=r"of .*double, and not of .*triple: give the step another"),
    ):
        step("a", triple, 21)


def test_only_the_owner_of_the_job_stores_a_result(run, config, raw_redis):
    keys = Installation.of(config).redis.keys
    with run(), pytest.raises(RunInterrupted, match="another process owns the job"):
        step("a", lambda: raw_redis.delete(keys.working(IDENTITY, "default", "default")))
    raw_redis.set(keys.fenced(IDENTITY), 1)
    with run(), pytest.raises(RunInterrupted):
        step("b", double, 1)
    assert not raw_redis.exists("offsider:steps:1")


def test_a_job_in_no_private_list_stores_its_results(run, config, raw_redis):
    alone = JobContext({"class": "Fulfil", "jid": "1", "args": []}, "default", alone_in=IDENTITY)
    with running(alone), pushing_with(Client(config)):
        step("a", double, 1)
    assert raw_redis.exists("offsider:steps:1")


def test_a_stop_or_a_cancellation_ends_a_run_before_its_next_step(run):
    class Cancelled:
        def asked_to_stop(self) -> bool:
            return True

    with run():
        step("a", double, 1)
    with run(is_stopping=lambda: True):
        assert step("a", double, 1) == 2
        with pytest.raises(RunInterrupted, match="before the step 'b'"):
            step("b", double, 1)
    with run() as context:
        context.control = Cancelled()
        with pytest.raises(Skip, match="cancelled"):
            step("b", double, 1)


def test_a_result_is_stored_when_the_server_is_back_unless_the_worker_stops(run, monkeypatch, config):
    store, outcomes = steps.store, [RedisUnavailable("away"), None]

    def unsteady(*args: Any, **more: Any) -> bool:
        if (error := outcomes.pop(0)) is not None:
            raise error
        return store(*args, **more)

    monkeypatch.setattr("offsider.jobs.steps.RETRY_SECONDS", 0.01)
    monkeypatch.setattr(steps, "store", unsteady)
    with run():
        assert step("a", double, 1) == 2
    assert "a" in steps.read(Installation.of(config).redis, "1").steps
    outcomes[:] = [RedisUnavailable("away")]
    stopped: list[int] = []
    with run(is_stopping=lambda: bool(stopped)), pytest.raises(RunInterrupted, match="'b' is not stored"):
        step("b", stopped.append, 1)


def test_without_a_server_no_step_begins(run, monkeypatch):
    def away(*_: Any) -> None:
        raise RedisUnavailable("away")

    monkeypatch.setattr(steps, "read", away)
    with run(), pytest.raises(RunInterrupted, match="cannot be reached"):
        step("a", double, 1)


def test_a_job_has_a_limited_number_of_steps(run, monkeypatch):
    monkeypatch.setattr("offsider.jobs.steps.MAX_STEPS", 2)
    with run():
        step("a", double, 1)
        step("b", double, 1)
        with pytest.raises(InvalidJob, match="at most 2 steps"):
            step("c", double, 1)


@dataclass
class Charge:
    cents: int


def charge() -> Charge:
    return Charge(7)


def test_the_codec_of_the_job_converts_results(run):
    with registry.isolated():

        @job(name="Fulfil", codec="annotations")
        def fulfil() -> None: ...

        for _ in range(2):
            with run(declared=fulfil.declared):
                assert step("charge", charge) == Charge(7)


async def adouble(number: int) -> int:
    await asyncio.sleep(0.05)
    return 2 * number


def test_steps_of_a_coroutine_may_begin_at_the_same_time(run):
    async def both(first: str, second: str) -> list[int]:
        return await asyncio.gather(astep(first, adouble, 1), astep(second, adouble, 2))

    for _ in range(5):
        with run() as context:
            assert asyncio.run(both("a", "b")) == [2, 4]
            assert len(context.effects) == 1
    with run(), pytest.raises(InvalidJob, match="this run has had the step 'c'"):
        asyncio.run(both("c", "c"))


def test_no_run_waits_while_a_step_runs_and_none_begins_in_a_run_that_waits(run):
    async def wait_during_a_step() -> None:
        running = asyncio.create_task(astep("slow", adouble, 1))
        await asyncio.sleep(0.02)
        try:
            await await_for("paid", timeout=60)
        finally:
            await running

    with run(), pytest.raises(InvalidJob, match="a wait while the step 'slow' runs"):
        asyncio.run(wait_during_a_step())
    with run():
        for wait in (
            lambda: wait_for("paid", timeout=60),
            lambda: wait_for("shipped", timeout=60),
            lambda: step("late", double, 1),
        ):
            with pytest.raises(Waiting, match="waits for the signal 'paid'") as raised:
                wait()
            assert 59 < raised.value.seconds <= 60


def test_a_signal_has_the_name_of_a_wait():
    with pytest.raises(InvalidJob, match="signal: the name is a text of 1 to 200 letters"):
        signal("1", "a\nb")


# ------------------------------------------------------------------------------------- signals


def test_the_first_signal_with_a_name_counts(run, raw_redis):
    with run():
        assert signal("1", "paid", 7)
        assert not signal("1", "paid", 8)
        assert asyncio.run(asignal("1", "shipped"))
        assert wait_for("paid", timeout=60) == 7
        assert wait_for("shipped", timeout=60) is None
    assert raw_redis.ttl("offsider:steps:1") > 15_000_000


def test_a_wait_ends_at_its_first_deadline(run, raw_redis):
    raw_redis.hset("offsider:steps:1", "until:paid", "1.5")
    with run(), pytest.raises(SignalTimeout, match="Fulfil: the signal 'paid' has not come in time"):
        wait_for("paid", timeout=60)
    with run(), pytest.raises(SignalTimeout):
        asyncio.run(await_for("paid", timeout=60))


def test_fields_of_others_are_no_steps(config, raw_redis):
    odd = {"step:a": "7", "step:b": "[1]", "step:c": "{", "signal:d": "{", "until:e": "x", "waits": "", "f": "1"}
    raw_redis.hset("offsider:steps:1", mapping=odd)
    seen = steps.read(Installation.of(config).redis, "1")
    assert (seen.steps, seen.signals, seen.until, seen.waits_for) == ({}, {"d": None}, {"e": 0.0}, "")
