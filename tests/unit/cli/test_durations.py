"""Spans of time as people type them."""

from __future__ import annotations

import click
import pytest

from offsider.cli.text import seconds_typed


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
