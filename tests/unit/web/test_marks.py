"""Deploy marks."""

from __future__ import annotations

from offsider.web.charts import figure
from offsider.web.charts.axis import Columns
from tests.unit.web.reading import read, texts, titles

HOUR = Columns(0.0, 60.0, 60)


def drawn(*given):
    return "".join(figure.draw_marks([{"at": at, "label": label} for at, label in given], HOUR, bottom=200.0))


def test_a_deploy_is_a_line_with_its_label():
    chart = drawn((900.0, "a1b2c3 Faster invoices"))
    assert texts(chart) == ["a1b2c3 Faster invoices"]
    assert titles(chart) == ["1970-01-01 00:15 UTC: a1b2c3 Faster invoices"]
    assert next(read(chart).iter("line")).get("x1") == "25%"


def test_a_deploy_outside_the_time_range_is_not_drawn():
    assert not drawn((-1.0, "before"), (3601.0, "after"))


def test_a_long_label_is_cut_with_the_full_text_as_tooltip():
    chart = drawn((900.0, "x" * 80))
    assert texts(chart) == ["x" * 23 + "…"]
    assert titles(chart)[0].endswith("x" * 80)


def test_a_label_in_the_right_half_is_left_of_its_line():
    anchors = [each.get("text-anchor") for each in read(drawn((900.0, "a"), (2700.0, "b"))).iter("text")]
    assert anchors == ["start", "end"]


def test_labels_of_neighbors_alternate_between_two_lines():
    heights = [each.get("y") for each in read(drawn((900.0, "a"), (960.0, "b"), (1020.0, "c"))).iter("text")]
    assert heights == ["12", "25", "12"]
