"""Bars are ratios within one run; missing measurements neither pass nor fail."""

import pytest

from bench.compare.bars import Bar, bars
from bench.compare.stats import Rows, Sample


def named(samples: list[Sample], name: str) -> Bar:
    return next(bar for bar in bars(Rows(samples)) if name in bar.name)


def test_the_fastest_python_rival_is_the_one_to_beat():
    samples = [
        Sample("drain", "offsider", 0, {"rate": 60_000.0}),
        Sample("drain", "Huey", 0, {"rate": 3_000.0}),
        Sample("drain", "SAQ", 0, {"rate": 2_000.0}),
        Sample("drain", "Sidekiq (Ruby)", 0, {"rate": 12_000.0}),
    ]
    assert named(samples, "one process: times the fastest").value == 20
    assert named(samples, "one process: times Ruby's").value == 5


def test_a_rival_s_best_row_counts_when_pinned():
    samples = [
        Sample("pinned", "offsider", 0, {"rate": 64_000.0}),
        Sample("drain", "Huey", 0, {"rate": 3_000.0}),
        Sample("pinned", "Huey", 0, {"rate": 8_000.0}),
    ]
    assert named(samples, "pinned: times the best row").value == 8


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


def test_without_samples_nothing_is_judged():
    assert {bar.verdict for bar in bars(Rows([]))} == {"not measured"}


def test_the_bar_of_a_kill_names_the_time_waited():
    samples = [Sample("kill", "offsider", 0, {"lost": 1.0, "patience": 110.0})]
    assert named(samples, "not run 110 s after kill -9").verdict == "fail"
