"""Bar charts, stacked ones among them."""

from __future__ import annotations

from hypothesis import given, settings, strategies

from offsider.web.charts.bars import bars
from tests.unit.web.reading import classed, places, read, rows, texts, titles


def drawn(*values, labels=None):
    series = [{"name": name, "values": each} for name, each in zip("abc", values, strict=False)]
    labels = labels if labels is not None else [f"day {at}" for at in range(len(values[0]) if values else 0)]
    return bars(str, series, labels, title="Runs", axis="Day")


def test_what_is_stacked_stands_on_what_is_below():
    lower, upper = classed(drawn([3], [1]), "bar")
    assert float(lower.get("y")) == float(upper.get("y")) + float(upper.get("height"))
    assert float(lower.get("height")) == 3 * float(upper.get("height"))


def test_a_single_job_beside_a_million_is_still_seen():
    little = classed(drawn([1, 1_000_000]), "bar")[0]
    assert float(little.get("height")) == 1


def test_nothing_has_no_bar():
    assert len(classed(drawn([0, 5]), "bar")) == 1


def test_each_bar_says_what_it_is():
    assert "day 1\na: 5\nb: 1" in titles(drawn([0, 5], [0, 1]))


def test_the_numbers_are_there_as_a_table():
    assert rows(drawn([0, 5])) == [["Day", "a"], ["day 0", "0"], ["day 1", "5"]]


def test_the_description_names_sum_and_highest():
    (description,) = read(drawn([1, 5], [1, 0])).iter("desc")
    assert description.text == "Total: a 6; b 1. Highest: 5 (day 1)"


def test_a_chart_of_nothing_says_so():
    for empty in (drawn(), drawn([0, 0])):
        assert "Nothing yet" in texts(empty)


def labels(chart):
    return [each for each in classed(chart, "label") if each.text.startswith("day")]


def test_half_a_year_has_as_many_labels_as_there_is_room_for_on_a_phone():
    found = labels(drawn([1] * 180))
    assert 4 <= len(found) <= 8
    assert {each.get("class") for each in found} == {"label"}


def test_on_narrow_pages_labels_may_be_left_out():
    assert [each.get("class") for each in labels(drawn([0] * 5))] == [
        *("label wide", "label widest", "label", "label widest", "label wide")
    ]


@settings(max_examples=50, deadline=None)
@given(strategies.lists(strategies.integers(0, 10**30), max_size=40))
def test_any_numbers_make_a_chart_that_stays_inside(values):
    chart = drawn(values)
    assert all(0 <= place <= 100.01 for place in places(chart))
    assert all(float(each.get("y")) >= 17 for each in classed(chart, "bar"))
