"""The frame around each drawing."""

from __future__ import annotations

import pytest

from offsider.web.charts import figure
from offsider.web.charts.axis import Columns
from tests.unit.web.reading import classed, english, read


def drawn(**changes):
    return figure.figure(
        **{"title": "Runs", "summary": "5 at most", "drawing": [], "legend": "", "table": ""} | changes
    )


def test_a_drawing_is_an_image_with_title_and_description():
    (svg,) = classed(drawn(), "plot")
    assert svg.get("role") == "img"
    assert [each.text for each in svg] == ["Runs", "5 at most"]


def test_a_caption_is_hidden_from_screen_readers():
    (caption,) = classed(drawn(caption="Runs"), "caption")
    assert (caption.text, caption.get("aria-hidden")) == ("Runs", "true")
    assert not classed(drawn(), "caption")


def test_time_runs_from_left_to_right_on_right_to_left_pages():
    (svg,) = classed(drawn(), "plot")
    assert svg.get("direction") == "ltr"


def test_one_series_needs_no_legend_and_two_have_one():
    assert not figure.legend(["only"])
    read_back = read(figure.legend(["a", "<b>"]))
    assert ["".join(each.itertext()) for each in read_back.iter("li")] == ["a", "<b>"]


def test_the_ninth_color_is_the_first_again():
    assert figure.color(8) == figure.color(0) == "series-1"


def test_a_scrolling_table_is_focusable_and_has_a_name():
    table = figure.numbers(english, ["Day", "Runs"], [["Monday", "3"]])
    (scroller,) = classed(table, "scroll")
    assert scroller.get("tabindex") == "0"
    assert scroller.get("aria-label") == english("common.numbers")
    assert [each.text for each in read(table).iter("th")] == ["Day", "Runs", "Monday"]


@pytest.mark.parametrize("share,anchor", [(0.0, "start"), (0.5, "middle"), (1.0, "end")])
def test_a_label_at_an_edge_stays_inside(share, anchor):
    assert figure.anchored(share)["text-anchor"] == anchor


def test_times_are_labeled_with_the_time_zone():
    labels = figure.time_labels(Columns(0.0, 60.0, 10))
    assert [each.split(">")[1].split("<")[0] for each in labels] == ["01-01", "00:05", "00:10 UTC"]
