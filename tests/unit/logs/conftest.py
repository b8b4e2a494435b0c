"""The loggers of offsider are left as they were, and a flush waits for a writer that a busy machine delays."""

from collections.abc import Iterator

import pytest

from offsider.logs import setup
from offsider.logs.setup import logger


@pytest.fixture(autouse=True)
def untouched_logger(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(setup, "FLUSH_SECONDS", 60.0)
    before = (logger.handlers[:], logger.level, logger.propagate)
    yield
    logger.handlers[:], logger.propagate = before[0], before[2]
    logger.setLevel(before[1])
