"""Charts, read as a browser reads them."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings, strategies

from offsider.config.web_tab import WebChart, WebHeatMap, WebSpark
from offsider.core.errors import ConfigurationError
from offsider.screens import plain, translation
from offsider.screens.time_axis import TimeAxis
from offsider.web import charts
from offsider.web.charts.axis import Heights
from offsider.web.charts.figure import element

english = translation.english().translate
MARKUP = "\"'></title><script>alert(1)</script>&amp;"


def read(chart):
    """The tree of a chart; fails when an element is not closed."""
    assert "style=" not in chart, "the pages' policy allows no style attribute"
    return ET.fromstring(f"<section>{chart}</section>")


def titles(chart):
    return [each.text for each in read(chart).iter("title")]


def texts(chart):
    return [each.text for each in read(chart).iter("text")]


def rows(chart):
    return [[cell.text for cell in row] for row in read(chart).iter("tr")]


def classed(chart, name):
    """The elements that have this class."""
    return [each for each in read(chart).iter() if name in each.get("class", "").split()]


def places(chart):
    """Every share of the width that the chart uses."""
    values = [each.get(key) for each in read(chart).iter() for key in ("x", "x1", "x2", "width")]
    return [float(value[:-1]) for value in values if value is not None and value.endswith("%")]


def drawn(bars, **given):
    return charts.chart(english, plain.block(WebChart("Runs", 0.0, 60.0, bars, **given)))


def heated(rows, **given):
    return charts.heat(english, plain.block(WebHeatMap("Durations", 0.0, 60.0, rows, **given)))


def bars_of(path):
    """Left edge, bottom and top of each bar of a series."""
    found = re.findall(r"M([\d.]+),([\d.]+)V([\d.]+)", path.get("d"))
    return [tuple(map(float, each)) for each in found]


def test_text_and_attributes_are_escaped():
    read_back = ET.fromstring(element("text", {"x": 1.5, "class": MARKUP}, MARKUP))
    assert (read_back.text, read_back.attrib) == (MARKUP, {"x": "1.5", "class": MARKUP})


@pytest.mark.parametrize(
    "highest,lines",
    [(20, [0, 5, 10, 15, 20]), (17, [0, 5, 10, 15, 20]), (1, [0, 0.5, 1]), (7, [0, 2, 4, 6, 8])],
)
def test_a_scale_has_a_few_round_lines(highest, lines):
    assert Heights.over(highest, whole=False, top=10.0, bottom=110.0).lines == lines


@given(
    strategies.floats(min_value=0, max_value=4e9),
    strategies.sampled_from([60.0, 600.0, 3600.0, 86_400.0]),
    strategies.integers(0, 2000),
)
def test_ticks_are_few_and_inside(starts_at, step, count):
    columns = TimeAxis(starts_at, step, count)
    assert len(columns.ticks) <= 6
    assert all(columns.share(at) is not None for at in columns.ticks if count)


def test_times_are_labeled_with_the_time_zone():
    assert texts(drawn({"a": [1] * 10}))[-3:] == ["01-01", "00:05", "00:10 UTC"]


def test_stacked_bars_start_where_the_bar_below_ends():
    lower, upper = classed(drawn({"a": [0, 3], "b": [0, 1]}), "area")
    (low,), (high,) = bars_of(lower), bars_of(upper)
    assert low[0] == high[0] == 11.0
    assert low[2] == high[1]
    assert low[1] - low[2] == pytest.approx(3 * (high[1] - high[2]), abs=0.5)


def test_failed_runs_have_one_color_wherever_they_are_stacked():
    chart = drawn({"v1": [1], "Failed": [1], "v2": [1]}, tones={"Failed": "bad"})
    colors = ["series-1", "tone-bad", "series-3"]
    assert [each.get("class").split()[1] for each in classed(chart, "area")] == colors
    assert [each.get("class").split()[1] for each in classed(chart, "swatch")] == colors


def test_one_job_beside_a_million_is_visible():
    (path,) = classed(drawn({"a": [1, 1_000_000]}), "area")
    assert bars_of(path)[0][1] - bars_of(path)[0][2] == 1


def test_the_drawing_is_an_image_with_title_and_description_and_the_numbers_are_a_table():
    chart = drawn({"a": [1, 0, 5], "b": [1, 0, 0]})
    (svg,) = classed(chart, "plot")
    assert (svg.get("role"), svg[0].text) == ("img", "Runs")
    assert svg[1].text == "Total: a 6; b 1. Peak: 5 (1970-01-01 00:02 UTC)"
    assert rows(chart) == [["Time (UTC)", "a", "b"], ["1970-01-01 00:02", "5", "0"], ["1970-01-01 00:00", "1", "1"]]
    assert [each.text for each in read(chart).iter("li")] == [None, None], "the name follows the color"


def test_the_tooltip_of_a_column_has_its_values_with_the_unit():
    assert titles(drawn({"p95": [0.25], "p50": [0]}, unit="s"))[1:] == ["1970-01-01 00:00 UTC\np95: 0.25 s"]


@pytest.mark.parametrize("empty", [drawn({}), drawn({"a": [0, 0]}), heated({}), heated({"20 ms": [0]})])
def test_a_chart_without_data_says_so(empty):
    assert "No data yet" in texts(empty)


def test_series_of_different_lengths_are_refused():
    with pytest.raises(ConfigurationError, match="all series must have the same number of values"):
        WebChart("Runs", 0.0, 60.0, {"a": [1], "b": [1, 2]})


def test_a_mark_is_a_line_with_its_label_and_those_outside_are_left_out():
    chart = drawn({"a": [1] * 60}, marks=[(900.0, "x" * 80), (9e9, "later"), (1800.0, MARKUP)])
    shown = classed(chart, "mark")
    assert [each.find("line").get("x1") for each in shown] == ["25%", "50%"]
    assert shown[0].find("text").text == "x" * 23 + "…"
    assert shown[0].find("title").text == f"1970-01-01 00:15 UTC: {'x' * 80}"
    assert "<script" not in chart


def test_a_sparkline_has_a_bar_for_each_value_and_the_peak_as_title():
    small = charts.spark(plain.cell(WebSpark([0, 1, 1500], "bad")))
    (path,) = classed(small, "bars")
    assert re.findall(r"M([\d.]+),23V([\d.]+)", path.get("d")) == [("60.0", "22.0"), ("100.0", "1.0")]
    assert titles(small) == ["≤ 1,500"]
    assert classed(small, "tone-bad")


def test_a_field_has_time_range_and_count_and_failed_runs_are_hatched():
    chart = heated({"20 ms": [0, 0], "30 ms": [4, 0], "45 ms": [0, 0], "65 ms": [0, 1]}, failed={"65 ms": [0, 1]})
    assert titles(chart)[1:] == ["1970-01-01 00:00 UTC\n30 ms: 4", "1970-01-01 00:01 UTC\n65 ms: 1 (1 failed)"]
    assert [each.get("x") for each in classed(chart, "hatched")] == ["50%"]
    assert [text for text in texts(chart) if "ms" in text] == ["30 ms", "45 ms", "65 ms"], "only used ranges"
    assert rows(chart)[1:] == [["1970-01-01 00:01", "0", "0", "1"], ["1970-01-01 00:00", "4", "0", "0"]]
    assert read(chart).find(".//desc").text == "30 ms: 4; 65 ms: 1"


@settings(max_examples=50, deadline=None)
@given(strategies.lists(strategies.integers(0, 10**30), max_size=40))
def test_any_numbers_stay_inside_the_chart(values):
    bars, durations = drawn({"a": values, "b": values}), heated({"20 ms": values, "30 ms": values})
    assert all(0 <= place <= 100.01 for chart in (bars, durations) for place in places(chart))
    assert all(top >= 32 for path in classed(bars, "area") for _, _, top in bars_of(path))
    assert all(float(each.get("y")) > 0 for each in classed(durations, "field"))
