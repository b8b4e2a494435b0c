"""The clock is an object."""

import time

from offsider.core.clock import SYSTEM_CLOCK


def test_the_system_clock_tells_epoch_seconds_and_a_time_that_never_goes_back():
    assert abs(SYSTEM_CLOCK.now() - time.time()) < 5
    first = SYSTEM_CLOCK.monotonic()
    assert SYSTEM_CLOCK.monotonic() >= first
