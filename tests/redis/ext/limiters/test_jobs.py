"""Limiters in jobs of a real worker."""

from __future__ import annotations

from time import sleep

import pytest

from offsider import job
from offsider.client import Client
from offsider.core.payload import decode
from offsider.ext.limiters import Limiter, Limiters, LimiterSet
from offsider.inspector import Stats
from offsider.testing import RunningWorker
from tests.waiting import wait_for


@pytest.fixture
def extension():
    return Limiters(backoff=lambda limiter, job, error: 3600)


def test_a_job_over_the_limit_runs_later_and_has_not_failed(config, client, raw_redis, declared):
    limiter, ran = Limiter.bucket("api", 2, "day", wait_timeout=0, config=config), []

    @job(name="Sync", retry=0)
    def sync(number: int) -> None:
        with limiter.within_limit():
            ran.append(number)

    @job(name="Async", retry=0)
    async def on_loop(number: int) -> None:
        async with limiter.within_limit():
            ran.append(number)

    for name in ("Sync", "Async", "Sync", "Sync"):
        client.push({"class": name, "args": [1]})
    with RunningWorker(config):
        wait_for(lambda: raw_redis.zcard("schedule") == 2)
    assert len(ran) == 2
    assert [decode(raw)["overrated"] for raw in raw_redis.zrange("schedule", 0, -1)] == [1, 1]
    assert not raw_redis.exists("retry")
    assert not raw_redis.exists("dead")
    assert Stats.read(config).failed == 0
    assert LimiterSet(config).find("bucket", "api").overages == 2


@pytest.mark.parametrize("kind", ["window", "concurrent"])
def test_jobs_over_a_limit_run_within_seconds(make_config, raw_redis, declared, kind):
    config, ran, inside, most = make_config(Limiters()), [], [], []
    if kind == "concurrent":
        limiter = Limiter.concurrent("api", 1, wait_timeout=0, lock_timeout=3600, config=config)
    else:
        limiter = Limiter.window("api", 5, "second", wait_timeout=0, config=config)

    @job(name="Call", retry=0)
    def call(number: int) -> None:
        with limiter.within_limit():
            inside.append(number)
            most.append(len(inside))
            sleep(0.01)
            inside.remove(number)
            ran.append(number)

    Client(config).push_bulk({"class": "Call", "args": [[number] for number in range(8)]})
    with RunningWorker(config):
        wait_for(lambda: len(ran) == 8, 60)
    assert sorted(ran) == [*range(8)]
    assert kind != "concurrent" or max(most) == 1
    assert not raw_redis.exists("dead")
