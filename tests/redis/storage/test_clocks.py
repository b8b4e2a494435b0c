"""The server's clock."""

import time

import pytest

from offsider.storage import clocks


def test_the_clock_and_the_way_to_it(pool):
    now, took = clocks.look(pool)
    assert now == pytest.approx(time.time(), abs=5)
    assert 0 < took < 5
