"""A client with a fixed clock whose pushes are collected in a list."""

import dataclasses
from random import Random

import pytest

from offsider.client import Client
from offsider.config.config import Config
from offsider.core.clock import Clock

NOW = 1_795_216_780.6525


@dataclasses.dataclass
class StoppedClock(Clock):
    seconds: float = NOW

    def now(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def config(clock) -> Config:
    config = Config()
    config.clock = clock
    config.random = Random(1)
    return config


@pytest.fixture
def client(config, stored) -> Client:
    return Client(config)
