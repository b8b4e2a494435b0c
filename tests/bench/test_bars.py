"""Missing measurements neither pass nor fail."""

import pytest

from bench.bar import Bar


@pytest.mark.parametrize(
    "bar, verdict",
    [
        (Bar("x", 6.0, 6), "pass"),
        (Bar("x", 5.9, 6), "fail"),
        (Bar("x", 12.0, 12, is_most=True), "pass"),
        (Bar("x", 12.1, 12, is_most=True), "fail"),
        (Bar("x", None, 6), "not measured"),
    ],
)
def test_a_bar_is_passed_missed_or_not_measured(bar, verdict):
    assert bar.verdict == verdict
    assert str(bar).startswith(verdict)
