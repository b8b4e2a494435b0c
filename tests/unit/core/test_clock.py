"""The clock is an object."""

import time

from offsider.core.clock import SYSTEM_CLOCK


def test_the_system_clock_has_epoch_seconds_and_a_monotonic_time():
    assert abs(SYSTEM_CLOCK.now() - time.time()) < 5
    first = SYSTEM_CLOCK.monotonic()
    assert SYSTEM_CLOCK.monotonic() >= first
