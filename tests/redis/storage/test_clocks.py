"""The server's clock."""

import time

import pytest

from offsider.core.clock import Clock
from offsider.storage import clocks


def test_the_server_clock_and_the_round_trip_time(pool):
    now, took = clocks.look(pool)
    assert now == pytest.approx(time.time(), abs=5)
    assert 0 < took < 5


class Late(Clock):
    """A clock that is 90 seconds behind."""

    def now(self) -> float:
        return time.time() - 90


def test_the_server_clock_compared_with_the_local_clock(pool):
    compared = clocks.compare(pool, Late(), times=3)
    assert 0 < compared.round_trip_seconds < 5
    assert compared.now == pytest.approx(time.time(), abs=5)
    assert compared.ahead_seconds == pytest.approx(90, abs=5)
