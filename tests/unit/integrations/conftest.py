"""The callers that the pushes of a test name."""

from collections.abc import Callable

import pytest


@pytest.fixture
def callers(stored) -> Callable[[], list[str | None]]:
    return lambda: [job.payload.get("meta.caller_id") for job in stored]
