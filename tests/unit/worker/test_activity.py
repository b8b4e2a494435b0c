"""Rates that a worker reports."""

from __future__ import annotations

import pytest

from offsider.testing import FakeClock
from offsider.worker.activity import WINDOW_SECONDS, Rates
from offsider.worker.run_account import Ended


@pytest.fixture
def clock():
    return FakeClock()


class Noting:
    """Rates that note what ran in each interval."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._ended = Ended()
        self._rates = Rates(clock.monotonic)
        self.per_second = self._rates.per_second

    def note(self, *counts: tuple[int, int], seconds: float = 1.0) -> None:
        for processed, failed in counts:
            self._clock.advance(seconds)
            self._ended = self._ended.plus(finished=processed - failed, failed=failed)
            self._rates.note(self._ended)


def test_a_rate_is_the_average_of_the_window(clock):
    rates = Noting(clock)
    rates.note(*[(430, 21)] * 20)
    assert rates.per_second() == (430, 21)
    rates.note((430 + 500, 21))
    assert rates.per_second() == (430 + 500 / WINDOW_SECONDS, 21)


def test_seconds_of_unequal_length_do_not_matter(clock):
    rates = Noting(clock)
    rates.note((200, 0), seconds=0.5)
    rates.note((600, 0), seconds=1.5)
    assert rates.per_second() == (400, 0)


def test_a_burst_after_idle_time_is_not_averaged_with_the_idle_time(clock):
    rates = Noting(clock)
    rates.note(*[(0, 0)] * 20)
    rates.note((300, 0))
    assert rates.per_second() == (300, 0)


def test_the_rate_falls_to_zero_once_nothing_was_run_for_a_window(clock):
    rates = Noting(clock)
    rates.note((300, 3), *[(0, 0)] * int(WINDOW_SECONDS))
    assert rates.per_second() == (0, 0)


def test_before_the_first_run_the_rate_is_zero(clock):
    assert Noting(clock).per_second() == (0, 0)
