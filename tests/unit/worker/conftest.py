"""A configuration with a fixed clock, and jobs that are unregistered after each test."""

from collections.abc import Iterator
from random import Random

import pytest

from offsider.config.config import Config
from offsider.core.clock import Clock
from offsider.jobs import registry

NOW = 1_795_216_780.25


class StoppedClock(Clock):
    def __init__(self) -> None:
        self.seconds = NOW

    def now(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def config(clock: StoppedClock) -> Config:
    config = Config()
    config.clock = clock
    config.random = Random(1)
    return config


@pytest.fixture
def reports(config: Config) -> list[tuple[BaseException, dict[str, object]]]:
    """The errors passed to error handlers."""
    reported: list[tuple[BaseException, dict[str, object]]] = []
    config.error_handlers.append(lambda error, context: reported.append((error, dict(context))))
    return reported


@pytest.fixture(autouse=True)
def no_jobs_left() -> Iterator[None]:
    with registry.isolated():
        yield
