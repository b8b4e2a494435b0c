"""Times, durations and long texts for people."""

from __future__ import annotations

import math

import pytest

from offsider.screens.plain import cut
from offsider.screens.translation import english
from offsider.web.display import NONE, iso, long_text, moment, relative, span

EN = english()


@pytest.mark.parametrize(
    "seconds,text",
    [(None, NONE), (math.nan, NONE), (0, "0 ms"), (0.0004, "0.4 ms"), (0.25, "250 ms"), (2.54, "2.5 s"), (12, "12 s"),
     (119, "119 s"), (120, "2 min"), (7199, "119 min"), (7200, "2 h"), (172800, "2 d"), (-5, "0 ms")],
)  # fmt: skip
def test_a_duration_is_shown_in_its_largest_unit(seconds, text):
    assert span(EN, seconds) == text


@pytest.mark.parametrize("at,text", [(100, "now"), (40, "60 s ago"), (400, "in 5 min"), (100.4, "now")])
def test_a_time_is_relative_to_now(at, text):
    assert relative(EN, at, now=100) == text


def test_long_texts_are_cut_and_can_be_expanded():
    assert cut("x" * 101) == "x" * 100 + "…"
    assert long_text(EN, "<b>") == "&lt;b&gt;"
    shown = long_text(EN, "<" * 5000)
    assert shown.startswith('<details class="long"><summary>' + "&lt;" * 100 + "…")
    assert shown.count("&lt;") == 100 + 2048
    assert "Show all" in shown


HUGE = 10**400


@pytest.mark.parametrize("value", [HUGE, -HUGE, math.nan, math.inf, -math.inf, 1e300, -1e300])
def test_any_stored_value_can_be_shown(value):
    for shown in (span(EN, value), iso(value), str(moment(EN, value)), EN.number(value, 2)):
        assert len(shown) < 100
    assert len(EN.translate("time.seconds", value=value)) < 100
    assert EN.number(HUGE) == "1.00e+400"
    assert EN.number(-(10**17)) == "-100,000,000,000,000,000"
