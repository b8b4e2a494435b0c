"""When a job is due: delays, moments, and numbers that may be either."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from offsider.client.times import due_at
from offsider.core.errors import InvalidOptions
from offsider.core.wording import shown

NOW = 1_795_216_780.5


@pytest.mark.parametrize(
    "when, expected",
    [
        (60, NOW + 60),
        (0.25, NOW + 0.25),
        (999_999_999, NOW + 999_999_999),
        (timedelta(minutes=5), NOW + 300),
        (4_102_444_801, 4_102_444_801),
        (4_102_444_802.25, 4_102_444_802.25),
        (datetime(2100, 1, 1, tzinfo=UTC), 4_102_444_800.0),
        (datetime(2100, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), 4_102_444_800.0),
        (0, None),
        (timedelta(0), None),
        (1_000_000_000, None),
        (NOW, None),
        (datetime(2001, 1, 1, tzinfo=UTC), None),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=1))), None),
        (253_402_300_799, 253_402_300_799),
    ],
    ids=str,
)
def test_a_small_number_is_a_delay_and_a_large_one_a_timestamp(when, expected):
    assert due_at(when, NOW) == expected


@pytest.mark.parametrize(
    "when, complaint",
    [
        (datetime(2100, 1, 1), "no time zone"),  # noqa: DTZ001
        (float("nan"), "must be finite"),
        (float("inf"), "must be finite"),
        (float("-inf"), "must be finite"),
        (1e300, "before the year 10000"),
        (10**400, "before the year 10000, got an int of more than 20 digits"),
        (10**5000, "before the year 10000"),
        (-(10**5000), "must not be negative"),
        (253_402_300_800, "before the year 10000"),
        (1_795_216_780_500, "got 1795216780500; is it in milliseconds"),
        (timedelta.max, "before the year 10000"),
        (datetime.max.replace(tzinfo=timezone(-timedelta(hours=1))), "before the year 10000"),
        (Decimal(5), "must be seconds"),
        (-1, "must not be negative"),
        (-0.001, "must not be negative"),
        (-2e9, "must not be negative"),
        (timedelta(seconds=-1), "must not be negative"),
        (True, "must be seconds"),
        ("60", "must be seconds"),
        (None, "must be seconds"),
    ],
    ids=shown,
)
def test_ambiguous_times_are_refused(when, complaint):
    with pytest.raises(InvalidOptions, match=complaint):
        due_at(when, NOW)


@given(st.floats(allow_nan=True, allow_infinity=True) | st.integers())
def test_a_number_is_refused_or_due_later_than_now(when):
    try:
        at = due_at(when, NOW)
    except InvalidOptions:
        return
    assert at is None or at > NOW
