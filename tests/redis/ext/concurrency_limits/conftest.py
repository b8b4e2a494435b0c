"""A configuration with concurrency limits on a real server, and classes to limit."""

from __future__ import annotations

import pytest

from offsider import Config
from offsider.config.installation import Installation
from offsider.ext.concurrency_limits import ConcurrencyLimits, Limits


@pytest.fixture
def config(redis_url):
    config = Config()
    config.redis.url = redis_url
    config.worker.timeout_seconds = 5
    config.use(ConcurrencyLimits())
    yield config
    Installation.of(config).close()


@pytest.fixture
def limits(config):
    return Limits(config)
