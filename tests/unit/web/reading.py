"""A chart read as a browser reads it."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from offsider.web import translation

english = translation.english().translate


def read(chart):
    """The tree of a chart; fails when an element is not closed."""
    assert "style=" not in chart, "the pages' policy allows no style attribute"
    return ET.fromstring(f"<section>{chart}</section>")


def titles(chart):
    return [each.text for each in read(chart).iter("title")]


def texts(chart):
    return [each.text for each in read(chart).iter("text")]


def rows(chart):
    return [[cell.text for cell in row] for row in read(chart).iter("tr")]


def classed(chart, name):
    """The elements that have this class."""
    return [each for each in read(chart).iter() if name in each.get("class", "").split()]


def places(chart):
    """Every share of the width that the chart uses."""
    values = [each.get(key) for each in read(chart).iter() for key in ("x", "x1", "x2", "cx", "width")]
    return [float(value[:-1]) for value in values if value is not None and value.endswith("%")]
