"""The pushes of a test, and the callers that they name."""

from collections.abc import Callable, Iterator

import pytest

from offsider.client import Prepared
from offsider.config import test_mode


@pytest.fixture
def stored() -> Iterator[list[Prepared]]:
    pushes: list[Prepared] = []
    with test_mode.diverted(pushes.extend):
        yield pushes


@pytest.fixture
def callers(stored) -> Callable[[], list[str | None]]:
    return lambda: [job.payload.get("meta.caller_id") for job in stored]
