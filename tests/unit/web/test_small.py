"""Drawings inside of tables."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings, strategies

from offsider.web.charts.bars import share, sparkline
from tests.unit.web.reading import classed, read, titles


def bars(drawn):
    """Place and top of each bar."""
    (path,) = classed(drawn, "bars")
    return re.findall(r"M([\d.]+),23V([\d.]+)", path.get("d"))


def test_a_sparkline_has_a_bar_for_each_value_and_the_peak_as_title():
    drawn = sparkline([0, 1, 1500], title="Per hour")
    assert bars(drawn) == [("60.0", "22.0"), ("100.0", "1.0")]
    assert titles(drawn) == ["Per hour: ≤ 1,500"]


def test_an_empty_sparkline_is_a_line():
    assert bars(sparkline([], title="Per hour")) == []


def test_a_sparkline_has_the_color_of_its_series():
    assert classed(sparkline([1], title="", position=3), "series-4")


@settings(max_examples=50, deadline=None)
@given(strategies.lists(strategies.floats(min_value=0, max_value=1e300), max_size=50))
def test_any_numbers_stay_inside_the_sparkline(values):
    for x, top in bars(sparkline(values, title="x")):
        assert 0 <= float(x) <= 120
        assert 1 <= float(top) <= 22


@pytest.mark.parametrize("part,whole,width", [(1, 4, "25%"), (0, 4, "0%"), (9, 4, "100%"), (1, 0, "0%")])
def test_a_share_is_drawn_by_its_width(part, whole, width):
    assert next(read(share(part, whole)).iter("rect")).get("width") == width
