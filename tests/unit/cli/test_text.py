"""Spans of time as people type them."""

from __future__ import annotations

import click
import pytest

from offsider.cli.text import ago, duration, plain, seconds_typed


@pytest.mark.parametrize(
    "typed, seconds",
    [("90", 90), ("90s", 90), ("5m", 300), ("2h", 7200), ("1.5h", 5400), ("1d", 86_400), (None, None)],
)
def test_a_span_is_a_number_with_its_unit(typed, seconds):
    assert seconds_typed(None, None, typed) == seconds


@pytest.mark.parametrize("typed", ["", "m", "5 m", "-5m", "0", "0h", "5w", "٣m", "1e3", "9999999999"])
def test_invalid_values_are_refused_with_the_expected_format(typed):
    with pytest.raises(click.BadParameter, match="expected a number with s, m, h or d"):
        seconds_typed(None, None, typed)


@pytest.mark.parametrize(
    "seconds, shown",
    [
        (-3, "0.00 s"),
        (0.251, "0.25 s"),
        (9.994, "9.99 s"),
        (42.7, "42 s"),
        (200, "3 min 20 s"),
        (18_650, "5 h 10 min"),
        (1_047_600, "12 d 3 h"),
    ],
)
def test_a_duration_has_two_units_at_most(seconds, shown):
    assert duration(seconds) == shown


def test_times_are_shown_relative_to_now():
    assert ago(100, 160) == "1 min 0 s ago"
    assert ago(400, 160) == "in 4 min 0 s"
    assert ago(157.6, 160) == "2 s ago"
    assert ago(None, 160) == ""


@pytest.mark.parametrize(
    "text, shown",
    [
        ("naïve 日本", "naïve 日本"),
        ("a\x1b[2Jb\nc\x07", r"a\x1b[2Jb\nc\x07"),
        ("\u202eabc", r"\u202eabc"),
        ("x" * 300, "x" * 199 + "…"),
    ],
)
def test_text_becomes_one_line_without_control_sequences(text, shown):
    assert plain(text) == shown
