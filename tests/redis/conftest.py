"""A configuration for the server under test, and declarations that end with their test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from offsider.config.config import Config
from offsider.config.default import set_default_config
from offsider.config.installation import Installation
from offsider.jobs import registry
from tests.faults import FaultProxy


@pytest.fixture
def config(redis_url: str) -> Iterator[Config]:
    config = Config()
    config.redis.url = redis_url
    yield config
    Installation.of(config).close()


@pytest.fixture
def proxy(redis_url: str) -> Iterator[FaultProxy]:
    with FaultProxy(redis_url) as proxy:
        yield proxy


@pytest.fixture
def declared() -> Iterator[None]:
    """Jobs of the test are forgotten after it."""
    with registry.isolated():
        yield


@pytest.fixture
def default_config(config: Config, declared: None) -> Iterator[Config]:
    """Makes `config` that of the process."""
    before = set_default_config(config)
    yield config
    set_default_config(before)
