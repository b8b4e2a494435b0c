"""Numbers, durations and sizes in a terminal."""

import pytest

from offsider.cli.text import ago, duration, grouped, megabytes


@pytest.mark.parametrize(
    "seconds, shown",
    [
        (-3, "0.00 s"),
        (0.251, "0.25 s"),
        (9.994, "9.99 s"),
        (42.7, "42 s"),
        (200, "3 min 20 s"),
        (18_650, "5 h 10 min"),
        (1_047_600, "12 d 3 h"),
    ],
)
def test_a_duration_has_two_units_at_most(seconds, shown):
    assert duration(seconds) == shown


def test_times_are_shown_relative_to_now():
    assert ago(100, 160) == "1 min 0 s ago"
    assert ago(400, 160) == "in 4 min 0 s"
    assert ago(157.6, 160) == "2 s ago"
    assert ago(None, 160) == ""


def test_large_numbers_are_grouped_and_memory_is_in_megabytes():
    assert grouped(1_234_567) == "1,234,567"
    assert megabytes(153_600) == "150 MB"
    assert megabytes(0) == ""
