from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

from offsider import ConfigurationError, job
from offsider.core.clock import SYSTEM_CLOCK
from offsider.testing import FakeClock, fake

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def test_it_advances_only_when_moved():
    clock = FakeClock(NOON)
    assert clock.now() == clock.now() == NOON.timestamp()
    clock.advance(1.5)
    clock.advance(timedelta(minutes=1))
    assert clock.as_datetime == NOON + timedelta(seconds=61.5)
    assert clock.monotonic() == 61.5


@pytest.mark.parametrize("by", [-1, math.nan, math.inf, timedelta(seconds=-1)])
def test_it_cannot_move_backward(by):
    with pytest.raises(ConfigurationError, match="must be a number of seconds from 0 to"):
        FakeClock().advance(by)


def test_a_naive_datetime_is_refused():
    with pytest.raises(ConfigurationError, match="without time zone"):
        FakeClock(datetime(2030, 1, 1))  # noqa: DTZ001 - this is it


def test_it_replaces_the_clock_of_a_configuration_within_a_block(config):
    @job(name="remind")
    def remind() -> None: ...

    with FakeClock(NOON).installed() as clock, fake() as enqueued:
        assert config.clock is clock
        remind.enqueue_in(60)
        assert enqueued.jobs[0].at == NOON.timestamp() + 60
    assert config.clock is SYSTEM_CLOCK
