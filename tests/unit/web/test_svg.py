"""Elements of charts: escaped for any input."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, strategies
from markupsafe import Markup

from offsider.web.charts.figure import element, percent

EVIL = "\"'><script>alert(1)</script>&amp;"


def test_text_and_attributes_are_escaped():
    read = ET.fromstring(element("text", {"x": 1.5, "class": EVIL}, EVIL))
    assert (read.text, read.attrib) == (EVIL, {"x": "1.5", "class": EVIL})


def test_markup_stays_markup():
    assert element("g", {}, element("rect", {"width": 3}), Markup("<br/>")) == '<g><rect width="3"></rect><br/></g>'


@pytest.mark.parametrize("share,written", [(0, "0%"), (0.5, "50%"), (1 / 3, "33.33%"), (1, "100%")])
def test_a_fraction_is_a_percentage_of_the_width(share, written):
    assert percent(share) == written


@given(strategies.floats(min_value=-1e12, max_value=1e12))
def test_numbers_have_no_exponent(number):
    written = element("g", {"x": number})
    assert abs(float(written[6 : written.index('">')]) - number) <= max(1.0, abs(number) * 1e-4)
    assert "e+" not in written
