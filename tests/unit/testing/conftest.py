"""Jobs to enqueue, and a configuration independent of files on this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from offsider import Config
from offsider.config.default import set_default_config
from offsider.jobs import registry


@pytest.fixture(autouse=True)
def config() -> Iterator[Config]:
    """The process's default for the test."""
    config = Config()
    previous = set_default_config(config)
    with registry.isolated():
        yield config
    set_default_config(previous)
