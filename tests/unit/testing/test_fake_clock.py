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


def test_it_starts_at_the_present_by_default():
    assert abs(FakeClock().now() - SYSTEM_CLOCK.now()) < 60
    assert FakeClock(1e9).now() == 1e9


@pytest.mark.parametrize("by", [-1, math.nan, math.inf, timedelta(seconds=-1)])
def test_it_cannot_move_backward(by):
    with pytest.raises(ConfigurationError, match="advance expects seconds, from 0 to 1e9"):
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


def test_a_configuration_frozen_inside_the_block_is_left_alone(config):
    with FakeClock().installed(config):
        config.freeze()
