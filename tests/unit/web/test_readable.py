"""How numbers and times are written in charts."""

from __future__ import annotations

import pytest

from offsider.web.charts import figure

NOON = 1_795_262_400.0  # 2026-11-21 12:00:00 UTC


@pytest.mark.parametrize(
    "value,written",
    [(0, "0"), (0.25, "0.25"), (999, "999"), (1500, "1.5k"), (2e6, "2M"), (3.2e9, "3.2G"), (1e13, "10T")],
)
def test_axes_have_short_numbers(value, written):
    assert figure.short(value) == written


@pytest.mark.parametrize("value,written", [(12345, "12,345"), (3.14159, "3.14"), (0.0123456, "0.0123"), (0.0, "0")])
def test_tables_have_exact_numbers(value, written):
    assert figure.exact(value) == written


@pytest.mark.parametrize("ms,written", [(20, "20 ms"), (1100, "1.1 s"), (5750, "5.75 s"), (335_000, "335 s")])
def test_durations_have_a_suitable_unit(ms, written):
    assert figure.duration(ms) == written


def test_times_are_utc():
    assert figure.clock(NOON) == "12:00"
    assert figure.moment(NOON) == "2026-11-21 12:00"


def test_midnight_is_shown_as_a_date():
    assert figure.tick(NOON) == "12:00"
    assert figure.tick(NOON + 43_200) == "11-22"
