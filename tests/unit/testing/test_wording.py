from __future__ import annotations

import math

import pytest

from offsider.testing import enqueued_job as wording


def test_a_long_value_loses_its_middle():
    assert wording.shown_value("abc") == "'abc'"
    shortened = wording.shown_value("a" * 60 + "b" * 60)
    assert shortened == "'" + "a" * 47 + "..." + "b" * 47 + "'"
    assert len(shortened) <= wording.LONGEST_VALUE


def test_a_call_reads_like_python():
    assert wording.shown_call("app.resize", ["a.png", 2], {"smooth": True}) == "app.resize('a.png', 2, smooth=True)"
    assert wording.shown_call("app.tick", [], {}) == "app.tick()"


@pytest.mark.parametrize(
    "seconds, text", [(60, "in 60 s"), (1.5, "in 1.5 s"), (0.0001, "in 0 s"), (31536000, "in 31536000 s")]
)
def test_a_delay_is_in_seconds(seconds, text):
    assert wording.shown_delay(seconds) == text


def test_a_time_is_shown_in_utc_or_as_a_number():
    assert wording.shown_moment(0) == "at 1970-01-01 00:00:00 UTC"
    assert wording.shown_moment(1e18) == "at 1e+18"
    assert wording.shown_moment(math.inf) == "at inf"
