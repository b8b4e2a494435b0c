"""A configuration with concurrency limits on a real server, and classes to limit."""

from __future__ import annotations

import pytest

from offsider import Config
from offsider.client import Client
from offsider.ext.concurrency_limits import ConcurrencyLimits, Limits
from offsider.jobs import registry


@pytest.fixture
def config(redis_url):
    config = Config()
    config.redis.url = redis_url
    config.worker.timeout_seconds = 5
    config.use(ConcurrencyLimits())
    yield config
    config.close()


@pytest.fixture
def client(config):
    return Client(config)


@pytest.fixture
def redis(config):
    """The pool of the configuration."""
    return config.shared_redis()


@pytest.fixture
def limits(config):
    return Limits(config)


@pytest.fixture
def declared():
    """Jobs of the test are forgotten after it."""
    with registry.isolated():
        yield
