"""The loggers of offsider are left as they were."""

from collections.abc import Iterator

import pytest

from offsider.logs.setup import logger


@pytest.fixture(autouse=True)
def untouched_logger() -> Iterator[None]:
    before = (logger.handlers[:], logger.level, logger.propagate)
    yield
    logger.handlers[:], logger.propagate = before[0], before[2]
    logger.setLevel(before[1])
