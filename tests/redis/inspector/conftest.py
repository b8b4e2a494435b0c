"""A configuration for the server under test, and a listener for removed jobs."""

from __future__ import annotations

import pytest

from offsider.config.config import Config
from offsider.runtime.events import JobRemoved


@pytest.fixture
def redis_cli(tag: str) -> str:
    """How fixes call redis-cli for a command with a key: on a Cluster it follows redirections."""
    return "redis-cli -c" if tag else "redis-cli"


@pytest.fixture
def removed(config: Config) -> list[JobRemoved]:
    """Every job_removed event from now on."""
    heard: list[JobRemoved] = []
    config.on("job_removed", heard.append)
    return heard
