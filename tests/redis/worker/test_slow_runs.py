"""A run that lasts unusually long is sampled three times, and shows where it was; others are not."""

from __future__ import annotations

import asyncio
import threading

import pytest

from offsider import job
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.core.series import DURATION_SECONDS, Series
from offsider.inspector.work import WorkSet, stacks_of
from offsider.storage import run_counts, stack_samples
from offsider.storage.stack_samples import StackSample
from offsider.worker import slow_runs
from offsider.worker.launcher import Launcher
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("declared")


@pytest.fixture
def end() -> threading.Event:
    return threading.Event()


@pytest.fixture
def launcher(worker_config, monkeypatch, end):
    monkeypatch.setattr(slow_runs, "MIN_SECONDS", 0.0)
    worker_config.worker.concurrency = 2
    worker_config.worker.timeout_seconds = 10
    launcher = Launcher(worker_config)
    launcher.start()
    yield launcher
    end.set()
    launcher.stop()


def run(config, name: str) -> str:
    jid = str(Client(config).push({"class": name, "args": ["a secret"]}))
    wait_for(lambda: WorkSet(config).find_work(jid))
    return jid


def test_three_samples_show_where_a_thread_and_a_coroutine_wait(launcher, worker_config, end):
    def waits_in_here() -> None:
        end.wait()

    @job(name="Thread")
    def thread(secret: str) -> None:
        assert secret
        waits_in_here()

    async def sleeps_in_here() -> None:
        await asyncio.to_thread(end.wait)

    @job(name="Coroutine")
    async def coroutine(secret: str) -> None:
        assert secret
        await sleeps_in_here()

    jids = {"waits_in_here": run(worker_config, "Thread"), "sleeps_in_here": run(worker_config, "Coroutine")}
    for _ in range(stack_samples.MAX_SAMPLES + 2):
        launcher.parts.watchdog.tick()
    for place, jid in jids.items():
        samples = wait_for(lambda jid=jid: stacks_of(jid, worker_config))
        assert len(samples) == 3
        for sample in samples:
            frames = [line for line in sample.stack.splitlines() if line.startswith("  File ")]
            assert frames[0].endswith((" in thread", " in coroutine")), "the worker's own frames are left out"
            assert f" in {place}\n" in sample.stack
            assert "a secret" not in sample.stack


def test_a_class_whose_runs_are_long_is_not_sampled(launcher, worker_config, end):
    @job(name="Usual")
    def usual(secret: str) -> None:
        assert secret
        end.wait()

    redis, now = Installation.of(worker_config).redis, worker_config.clock.now()
    runs = Series({"class": "Usual", "queue": "default"}, processed=20)
    runs.run_buckets[DURATION_SECONDS.index(20.0)] = 18
    runs.run_buckets[-1] = 2
    run_counts.add(redis, [runs], now, wire_version=8)
    assert slow_runs.p95(redis, "Usual", now) == DURATION_SECONDS[-1]
    assert slow_runs.p95(redis, "Other", now) == 0.0
    jid = run(worker_config, "Usual")
    launcher.parts.watchdog.tick()
    assert not stacks_of(jid, worker_config)
    assert launcher.work_state.busy == 1


def test_samples_are_bounded_and_those_of_an_earlier_run_are_left_out(worker_config, raw_redis):
    redis = Installation.of(worker_config).redis
    for run_at, at in ((1.0, 20.0), (1.0, 25.0), (50.0, 70.0)):
        stack_samples.add(redis, "j", StackSample(run_at, at, "x" * 5_000 + f" {at}"))
    (sample,) = stacks_of("j", worker_config)
    assert (sample.run_at, sample.at, len(sample.stack)) == (50.0, 70.0, stack_samples.MAX_CHARACTERS)
    assert sample.stack.endswith(" 70.0")
    stack_samples.add(redis, "j", sample)
    assert raw_redis.llen("offsider:stacks:j") == stack_samples.MAX_SAMPLES
    assert 0 < raw_redis.ttl("offsider:stacks:j") <= stack_samples.LIFE_SECONDS
    assert stacks_of("unknown", worker_config) == []
