"""Blocks of screens as lines of a terminal."""

from __future__ import annotations

from offsider.cli.screen_text import _spark
from offsider.cli.show import _lines
from offsider.config.web_tab import WebChart, WebHeatMap, WebPage, WebTab, WebText


def test_a_chart_is_drawn_in_the_terminal_as_in_the_browser():
    chart = WebChart("Runs", 0.0, 60.0, {"ok": [0, 8, 4], "failed": [1, 0, 0]}, marks=[(60.0, "v42")])
    heat = WebHeatMap("Durations", 0.0, 60.0, {"20 ms": [4, 0], "30 ms": [0, 0], "45 ms": [1, 2]})
    waits = WebChart("Wait", 0.0, 60.0, {"wait": [0.5, 2.0]}, unit="s")
    page = WebPage("Class", [chart, heat, waits, WebText("Traceback", "File a\nFile b", folded="2 lines")])
    tab = WebTab("classes", "Classes", "/class")
    assert [line.rstrip() for line in _lines(tab, page, "")] == [
        *("Class", "", "Runs, 00:00 to 00:03 UTC", "ok       █▄  total 12", "failed  ▁    total 1", "00:01 v42"),
        *("", "Durations, 00:00 to 00:02 UTC", "45 ms  ▂▄  total 3", "20 ms  █   total 4"),
        *("", "Wait, 00:00 to 00:02 UTC", "wait  ▂█  highest 2 s", "", "Traceback", "File a", "File b"),
    ]
    assert _spark([1, 9] * 500, 9) == "█" * 59
