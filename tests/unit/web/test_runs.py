"""The two charts of the dashboard."""

from __future__ import annotations

from offsider.web import charts
from tests.unit.web.reading import classed, english, rows, titles


def test_a_day_shows_failed_runs_on_top_of_successful_ones():
    chart = charts.history(english, ["2026-11-20", "2026-11-21"], [10, 4], [2, 0])
    assert rows(chart) == [["Day (UTC)", "Succeeded", "Failed"], ["11-20", "8", "2"], ["11-21", "4", "0"]]


def test_a_day_with_more_failures_than_runs_has_no_negative_bar():
    assert rows(charts.history(english, ["2026-11-21"], [1], [2]))[1:] == [["11-21", "0", "2"]]


def test_the_live_chart_has_a_line_for_runs_and_one_for_failures():
    chart = charts.live(english, charts.Columns(0.0, 60.0, 2), [5, 6], [0, 1])
    assert titles(chart)[0] == "Runs per minute"
    assert len(classed(chart, "line")) == 2


def test_the_texts_are_translated():
    assert "PROCESSED" in charts.live(str.upper, charts.Columns(0.0, 60.0, 1), [1], [0])
