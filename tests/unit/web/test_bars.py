"""Bar charts, stacked ones among them."""

from __future__ import annotations

from hypothesis import given, settings, strategies

from offsider.web.charts.bars import bars
from tests.unit.web.reading import classed, english, places, read, rows, texts, titles


def drawn(*values, labels=None):
    series = [{"name": name, "values": each} for name, each in zip("abc", values, strict=False)]
    labels = labels if labels is not None else [f"day {at}" for at in range(len(values[0]) if values else 0)]
    return bars(english, series, labels, title="Runs", axis="Day")


def test_stacked_bars_start_where_the_bar_below_ends():
    lower, upper = classed(drawn([3], [1]), "bar")
    assert float(lower.get("y")) == float(upper.get("y")) + float(upper.get("height"))
    assert float(lower.get("height")) == 3 * float(upper.get("height"))


def test_one_job_beside_a_million_is_visible():
    little = classed(drawn([1, 1_000_000]), "bar")[0]
    assert float(little.get("height")) == 1


def test_zero_has_no_bar():
    assert len(classed(drawn([0, 5]), "bar")) == 1


def test_each_bar_has_a_tooltip():
    assert "day 1\na: 5\nb: 1" in titles(drawn([0, 5], [0, 1]))


def test_the_numbers_are_available_as_a_table():
    assert rows(drawn([0, 5])) == [["Day", "a"], ["day 0", "0"], ["day 1", "5"]]


def test_the_description_has_sum_and_peak():
    (description,) = read(drawn([1, 5], [1, 0])).iter("desc")
    assert description.text == "Total: a 6; b 1. Peak: 5 (day 1)"


def test_an_empty_chart_has_a_note():
    for empty in (drawn(), drawn([0, 0])):
        assert "No data yet" in texts(empty)


def labels(chart):
    return [each for each in classed(chart, "label") if each.text.startswith("day")]


def test_half_a_year_has_few_enough_labels_for_a_phone():
    found = labels(drawn([1] * 180))
    assert 4 <= len(found) <= 8
    assert {each.get("class") for each in found} == {"label"}


def test_narrow_pages_hide_some_labels():
    assert [each.get("class") for each in labels(drawn([0] * 5))] == [
        *("label wide", "label widest", "label", "label widest", "label wide")
    ]


@settings(max_examples=50, deadline=None)
@given(strategies.lists(strategies.integers(0, 10**30), max_size=40))
def test_any_numbers_stay_inside_the_chart(values):
    chart = drawn(values)
    assert all(0 <= place <= 100.01 for place in places(chart))
    assert all(float(each.get("y")) >= 17 for each in classed(chart, "bar"))
