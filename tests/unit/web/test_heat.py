"""Durations over time."""

from __future__ import annotations

from hypothesis import given, settings, strategies

from offsider.web.charts.axis import Columns
from offsider.web.charts.heat import heat
from tests.unit.web.reading import classed, english, places, read, rows, texts, titles

LABELS = ["20 ms", "30 ms", "45 ms", "65 ms"]


def drawn(counts, **given):
    return heat(english, counts, Columns(0.0, 60.0, len(counts)), LABELS, title="Durations", **given)


def test_a_cell_has_time_duration_and_count():
    chart = drawn([[0, 4, 0, 0], [0, 0, 0, 1]])
    assert titles(chart) == ["Durations", "00:00 UTC\n30 ms: 4", "00:01 UTC\n65 ms: 1"]


def test_slower_runs_are_higher():
    quick, slow = classed(drawn([[0, 4, 0, 1]]), "field")
    assert float(slow.get("y")) < float(quick.get("y"))


def test_only_used_durations_and_those_between_have_a_row():
    assert [text for text in texts(drawn([[0, 4, 0, 1]])) if "ms" in text] == LABELS[1:]


def test_more_jobs_make_a_more_intense_cell():
    weak, strong = classed(drawn([[1, 100, 0, 0]]), "field")
    assert "heat-1" in weak.get("class")
    assert "heat-5" in strong.get("class")


def test_the_numbers_are_available_as_a_table():
    assert rows(drawn([[1, 0, 2, 0], [0, 0, 0, 0]])) == [
        ["Time (UTC)", "20 ms", "30 ms", "45 ms"],
        ["1970-01-01 00:00", "1", "0", "2"],
    ]


def test_the_description_sums_each_duration():
    (description,) = read(drawn([[1, 0, 2, 0], [3, 0, 0, 0]])).iter("desc")
    assert description.text == "20 ms: 4; 45 ms: 2"


def test_an_empty_chart_has_a_note():
    for counts in ([], [[0, 0, 0, 0]]):
        assert "No data yet" in texts(drawn(counts))


def test_deploys_are_in_the_chart():
    assert "v2" in texts(drawn([[1, 0, 0, 0]], marks=[{"at": 30.0, "label": "v2"}]))


@settings(max_examples=50, deadline=None)
@given(strategies.lists(strategies.lists(strategies.integers(0, 10**12), min_size=4, max_size=4), max_size=20))
def test_any_numbers_stay_inside_the_chart(counts):
    chart = drawn(counts)
    assert all(0 <= place <= 100.01 for place in places(chart))
    assert all(float(each.get("y")) > 0 for each in classed(chart, "field"))
