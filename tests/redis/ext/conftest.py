"""What tests of an extension want besides its configuration, which each folder makes as the fixture `config`."""

from __future__ import annotations

import pytest

from offsider.client import Client
from offsider.config.installation import Installation
from offsider.jobs import registry


@pytest.fixture
def client(config):
    return Client(config)


@pytest.fixture
def redis(config):
    """The pool of the configuration."""
    return Installation.of(config).redis


@pytest.fixture
def declared():
    """Jobs of the test are forgotten after it."""
    with registry.isolated():
        yield
