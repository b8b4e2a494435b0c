"""A configuration with unique jobs on a real server."""

from __future__ import annotations

import pytest

from offsider.ext.unique import Unique


@pytest.fixture
def config(config):
    config.worker.timeout_seconds = 5
    config.use(Unique())
    return config
