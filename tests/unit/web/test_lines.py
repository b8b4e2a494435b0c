"""Line charts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies

from offsider.web.charts import Columns, lines
from tests.unit.web.reading import classed, english, places, read, rows, texts, titles

EVIL = "</title><script>alert(1)</script>"


def drawn(*values, names="abcdefghijkl", columns=None, **given):
    series = [{"name": name, "values": each} for name, each in zip(names, values, strict=False)]
    columns = columns or Columns(0.0, 60.0, len(values[0]) if values else 5)
    return lines(english, series, columns, title="Seconds", unit="s", **given)


def test_each_series_is_a_line_through_its_values():
    chart = drawn([0, 10], [10, 0])
    first, second = classed(chart, "line")
    assert first.get("points") == "250.0,216.0 750.0,34.0"
    assert second.get("points") == "250.0,34.0 750.0,216.0"


def test_each_column_has_a_tooltip_without_a_script():
    assert "00:01 UTC\na: 1,500 s\nb: 0.5 s" in titles(drawn([0, 1500], [0, 0.5]))


def test_the_table_shows_newest_first_without_empty_columns():
    assert rows(drawn([1, 0, 3], [0, 0, 2])) == [
        ["Time (UTC)", "a", "b"],
        ["1970-01-01 00:02", "3", "2"],
        ["1970-01-01 00:00", "1", "0"],
    ]


def test_the_description_has_the_peak_of_each_series():
    (description,) = read(drawn([1, 7], [2, 3])).iter("desc")
    assert description.text == "1970-01-01 00:00 to 1970-01-01 00:02 UTC. Peak: a 7 s; b 3 s"


def test_a_chart_without_values_has_a_note():
    for empty in (drawn(), drawn([0, 0, 0])):
        assert "No data yet" in texts(empty)
        assert not classed(empty, "line")


def test_a_single_value_is_a_dot():
    (dot,) = classed(drawn([5]), "dot")
    assert dot.get("cx") == "50%"


def test_unknown_values_are_gaps_and_a_value_between_gaps_is_a_dot():
    chart = drawn([None, 10, 0, None, None, 10, None, 5, 5])
    assert [len(line.get("points").split()) for line in classed(chart, "line")] == [2, 1, 2]
    (dot,) = classed(chart, "dot")
    assert dot.get("cx") == "61.11%"
    assert rows(drawn([None, 3], [1, None])) == [
        ["Time (UTC)", "a", "b"],
        ["1970-01-01 00:01", "3", "\N{EN DASH}"],
        ["1970-01-01 00:00", "\N{EN DASH}", "1"],
    ]
    assert "No data yet" in texts(drawn([None, None]))


@pytest.mark.parametrize("values,drawn_points", [([5, 8, 2], 2), ([5, 8, 8], 3), ([5, 8, 9], 3), ([0], 1), ([0, 3], 2)])
def test_an_incomplete_column_does_not_look_like_an_outage(values, drawn_points):
    (line,) = classed(drawn(values, [9] * len(values), running=True), "line")[:1]
    assert len(line.get("points").split()) == drawn_points


def test_deploys_are_in_the_chart():
    assert "v2" in texts(drawn([1, 2], marks=[{"at": 60.0, "label": "v2"}]))


def test_a_target_range_is_drawn_below_the_lines_with_its_name():
    chart = drawn([10, 20], zone={"name": "Good", "low": 20, "high": 40})
    (band,) = classed(chart, "zone")
    assert (band.get("y"), band.get("height")) == ("34", "91")
    assert "Good" in texts(chart)
    assert str(chart).index('class="zone"') < str(chart).index("polyline")


def test_lines_at_zero_are_drawn_if_there_is_a_target_range():
    (line,) = classed(drawn([0, 0], zone={"name": "Good", "low": 20, "high": 40}), "line")
    assert line.get("points") == "250.0,216.0 750.0,216.0"
    assert "No data yet" in texts(drawn(zone={"name": "Good", "low": 20, "high": 40}))


def test_names_cannot_break_out_of_the_chart():
    chart = drawn([1, 2], [1, 2], names=[EVIL, "b"], marks=[{"at": 60.0, "label": EVIL}])
    assert "<script" not in chart
    assert any(EVIL in title for title in titles(chart))


@settings(max_examples=50, deadline=None)
@given(strategies.lists(strategies.floats(min_value=0, max_value=1e300), max_size=40))
def test_any_numbers_stay_inside_the_chart(values):
    chart = drawn(values, columns=Columns(1.7e9, 60.0, len(values)))
    assert all(0 <= place <= 100.01 for place in places(chart))
    for line in classed(chart, "line"):
        heights = [float(point.split(",")[1]) for point in line.get("points").split()]
        assert all(34 <= height <= 216 for height in heights)
