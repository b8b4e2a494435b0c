"""A configuration with states and results on a real server."""

from __future__ import annotations

import asyncio

import pytest

from offsider import Config
from offsider.config.installation import Installation
from offsider.ext.results import Results, subscriber
from offsider.jobs import registry
from offsider.jobs.declared import Declared


@pytest.fixture
def results():
    return Results()


@pytest.fixture(autouse=True)
def _declared(request):
    with registry.isolated():
        for value in vars(request.module).values():
            declared = getattr(value, "declared", None)
            if isinstance(declared, Declared):
                registry.register(declared)
        yield


@pytest.fixture
def arun(config):
    """Run a coroutine, and close the connections of its loop."""

    async def run(coroutine):
        try:
            return await coroutine
        finally:
            await Installation.of(config).async_redis.close()

    return lambda coroutine: asyncio.run(run(coroutine))


@pytest.fixture
def config(redis_url, results, monkeypatch):
    monkeypatch.setattr(subscriber, "IDLE_SECONDS", 0.02)  # tests wait for their threads
    config = Config()
    config.redis.url = redis_url
    config.worker.timeout_seconds = 5
    config.use(results)
    # `enqueue` and `lookup` use the configuration of the process.
    monkeypatch.setattr("offsider.config.installation.default_config", lambda: config)
    yield config
    Installation.of(config).close()
