"""Limiters in jobs of a real worker."""

from __future__ import annotations

from time import sleep

import pytest

from offsider import Client, Config, job
from offsider.config.installation import Installation
from offsider.core.payload import decode
from offsider.ext.limiters import Limiter, Limiters, LimiterSet
from offsider.inspector import Stats
from offsider.testing import RunningWorker
from tests.waiting import wait_for


@pytest.fixture
def config(redis_url):
    config = Config()
    config.redis.url = redis_url
    config.worker.timeout_seconds = 5
    config.use(Limiters(backoff=lambda limiter, job, error: 3600))
    yield config
    Installation.of(config).close()


def test_a_job_over_the_limit_runs_later_and_has_not_failed(config, client, raw_redis, declared):
    limiter, ran = Limiter.bucket("api", 2, "day", wait_timeout=0, config=config), []

    @job(name="Sync", retry=0)
    def sync(number: int) -> None:
        with limiter.within_limit():
            ran.append(number)

    @job(name="Async", retry=0)
    async def on_loop(number: int) -> None:
        try:
            async with limiter.within_limit():
                ran.append(number)
        finally:
            await Installation.of(config).async_redis.close()

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


@pytest.mark.parametrize("kind", ["window", "bucket", "leaky", "concurrent"])
def test_jobs_over_a_limit_of_five_per_second_run_within_seconds(redis_url, raw_redis, declared, kind):
    config = Config()
    config.redis.url = redis_url
    config.use(Limiters())
    if kind == "concurrent":
        limiter = Limiter.concurrent("api", 1, wait_timeout=0, lock_timeout=3600, config=config)
    else:
        limiter = getattr(Limiter, kind)("api", 5, "second", wait_timeout=0, config=config)
    ran = []

    @job(name="Call", retry=0)
    def call(number: int) -> None:
        with limiter.within_limit():
            sleep(0.01)
            ran.append(number)

    client = Client(config)
    for number in range(12):
        client.push({"class": "Call", "args": [number]})
    with RunningWorker(config):
        wait_for(lambda: len(ran) == 12, 60)
    assert sorted(ran) == [*range(12)]
    assert not raw_redis.exists("dead")
