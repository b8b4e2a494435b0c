"""Pushes that land in a list, and jobs that are forgotten after their test."""

from collections.abc import Iterator

import pytest

from offsider.client import Prepared
from offsider.config import test_mode
from offsider.jobs import registry


@pytest.fixture
def stored() -> Iterator[list[Prepared]]:
    pushes: list[Prepared] = []
    with test_mode.diverted(pushes.extend):
        yield pushes


@pytest.fixture
def declared() -> Iterator[None]:
    with registry.isolated():
        yield
