"""Drawings inside of tables."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies

from offsider.web.charts.small import share, sparkline
from tests.unit.web.reading import classed, places, read, titles


def test_a_sparkline_has_a_bar_for_each_value_and_says_the_highest():
    drawn = sparkline([0, 1, 1500], title="Per hour")
    assert len(classed(drawn, "bar")) == 2
    assert titles(drawn) == ["Per hour: ≤ 1,500"]


def test_a_sparkline_of_nothing_is_a_line():
    assert not classed(sparkline([], title="Per hour"), "bar")


def test_a_sparkline_has_the_colour_of_its_series():
    assert classed(sparkline([1], title="", position=3), "series-4")


@settings(max_examples=50, deadline=None)
@given(strategies.lists(strategies.floats(min_value=0, max_value=1e300), max_size=50))
def test_any_numbers_make_a_sparkline_that_stays_inside(values):
    drawn = sparkline(values, title="x")
    assert all(0 <= place <= 100.01 for place in places(drawn))
    assert all(float(each.get("height")) >= 1 for each in classed(drawn, "bar"))


@pytest.mark.parametrize("part,whole,width", [(1, 4, "25%"), (0, 4, "0%"), (9, 4, "100%"), (1, 0, "0%")])
def test_a_share_is_drawn_by_its_width(part, whole, width):
    assert next(read(share(part, whole)).iter("rect")).get("width") == width
