"""Where values and times stand."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies

from offsider.web.charts.axis import Columns, Heights

HOUR = Columns(starts_at=3600.0, step_seconds=60.0, count=60)


def heights(highest, *, whole=False):
    return Heights.over(highest, whole=whole, top=10.0, bottom=110.0)


@pytest.mark.parametrize(
    "highest,lines",
    [(20, [0, 5, 10, 15, 20]), (17, [0, 5, 10, 15, 20]), (1, [0, 0.5, 1]), (7, [0, 2, 4, 6, 8])],
)
def test_a_scale_has_a_few_round_lines(highest, lines):
    assert heights(highest).lines == lines


def test_scales_of_counts_have_only_whole_numbers():
    assert heights(1, whole=True).lines == [0, 1]
    assert heights(2, whole=True).lines == [0, 1, 2]


def test_zero_has_a_scale():
    assert heights(0, whole=True).lines == [0, 1]
    assert heights(0).of(0) == 110.0


def test_the_highest_line_is_at_the_top_and_zero_at_the_bottom():
    scale = heights(20)
    assert (scale.of(0), scale.of(10), scale.of(20)) == (110.0, 60.0, 10.0)


@given(strategies.floats(min_value=0, allow_nan=False, allow_infinity=False), strategies.booleans())
def test_any_value_is_inside_its_scale(value, whole):
    scale = heights(value, whole=whole)
    assert 10.0 <= scale.of(value) <= 110.0
    assert 2 <= len(scale.lines) <= 7
    assert scale.lines == sorted(set(scale.lines))


def test_a_time_outside_has_no_position():
    assert HOUR.share(3599) is None
    assert HOUR.share(7201) is None
    assert Columns(0.0, 60.0, 0).share(0.0) is None


def test_times_and_middles_are_fractions_of_the_width():
    assert HOUR.share(5400) == 0.5
    assert Columns(0.0, 60.0, 2).middle(1) == 0.75
    assert Columns(0.0, 60.0, 3).starts == [0.0, 60.0, 120.0]


def test_an_hour_has_ticks_at_round_minutes():
    assert HOUR.ticks == [3600.0, 4200.0, 4800.0, 5400.0, 6000.0, 6600.0]


@given(
    strategies.floats(min_value=0, max_value=4e9),
    strategies.sampled_from([60.0, 600.0, 3600.0, 86_400.0]),
    strategies.integers(0, 2000),
)
def test_ticks_are_few_and_inside(starts_at, step, count):
    columns = Columns(starts_at, step, count)
    assert len(columns.ticks) <= 6
    assert all(columns.share(at) is not None for at in columns.ticks if count)


@pytest.mark.parametrize(
    "minutes,step,columns",
    [(60, 60, (60, 60)), (240, 60, (120, 120)), (4320, 600, (108, 2400)), (0, 60, (0, 60)), (121, 60, (61, 120))],
)
def test_long_ranges_are_merged_into_at_most_120_columns(minutes, step, columns):
    made = Columns.over(1000.0, 1000.0 + minutes * 60, step)
    assert (made.count, made.step_seconds) == columns


def test_a_column_is_the_sum_of_its_steps():
    columns = Columns(0.0, 120.0, 2)
    assert columns.sums({-60.0: 9, 0.0: 1, 60.0: 2, 120.0: 4, 240.0: 9}) == [3, 4]
