"""A configuration with unique jobs on a real server."""

from __future__ import annotations

import pytest

from offsider import Config
from offsider.config.installation import Installation
from offsider.ext.unique import Unique


@pytest.fixture
def config(redis_url):
    config = Config()
    config.redis.url = redis_url
    config.worker.timeout_seconds = 5
    config.use(Unique())
    yield config
    Installation.of(config).close()
