"""The two charts of the dashboard."""

from __future__ import annotations

from offsider.web import charts
from tests.unit.web.reading import classed, rows, titles


def test_a_day_shows_what_failed_on_top_of_what_succeeded():
    chart = charts.history(str, ["2026-11-20", "2026-11-21"], [10, 4], [2, 0])
    assert rows(chart) == [["Day (UTC)", "Succeeded", "Failed"], ["11-20", "8", "2"], ["11-21", "4", "0"]]


def test_a_day_of_which_more_failures_than_runs_are_counted_yet_has_no_bar_below_zero():
    assert rows(charts.history(str, ["2026-11-21"], [1], [2]))[1:] == [["11-21", "0", "2"]]


def test_the_live_chart_has_a_line_for_runs_and_one_for_failures():
    chart = charts.live(str, charts.Columns(0.0, 60.0, 2), [5, 6], [0, 1])
    assert titles(chart)[0] == "Runs per minute"
    assert len(classed(chart, "line")) == 2


def test_the_words_are_those_of_the_page():
    assert "PROCESSED" in charts.live(str.upper, charts.Columns(0.0, 60.0, 1), [1], [0])
