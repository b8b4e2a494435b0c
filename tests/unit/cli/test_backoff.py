"""The pauses before a worker is started again."""

from __future__ import annotations

from offsider.cli.supervisor.children import Backoff


def test_at_once_the_first_time_then_longer_and_longer_up_to_half_a_minute():
    backoff = Backoff()
    assert [backoff.pause_seconds(0.1) for _ in range(8)] == [0, 1, 2, 4, 8, 16, 30, 30]


def test_a_minute_of_uptime_resets_the_backoff():
    backoff = Backoff()
    pauses = [backoff.pause_seconds(lived) for lived in (0, 59, 59, 60, 0)]
    assert pauses == [0, 1, 2, 0, 1]
