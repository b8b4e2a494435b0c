"""Jobs declared by a test are forgotten after it, and pushes land in a list."""

from collections.abc import Iterator

import pytest

from offsider.client import Prepared
from offsider.config import test_mode
from offsider.config.config import Config
from offsider.config.default import set_default_config
from offsider.jobs import registry
from tests.unit.jobs.both import make_class, make_function


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    with registry.isolated():
        yield


@pytest.fixture
def config() -> Iterator[Config]:
    """The default configuration of the process."""
    config = Config()
    before = set_default_config(config)
    yield config
    set_default_config(before)


@pytest.fixture
def stored(config) -> Iterator[list[Prepared]]:
    pushes: list[Prepared] = []
    with test_mode.diverted(pushes.extend):
        yield pushes


@pytest.fixture(params=[make_function, make_class], ids=["function", "class"])
def declare(request):
    return request.param
