"""Names in paths survive every proxy between a browser and the pages."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies

from offsider.web.segments import from_segment, segment


@pytest.mark.parametrize("name", ["default", "low-1", "mail:out", "a.b_c", "f9b8e2a1c3d4e5f60718293a"])
def test_usual_names_are_unchanged(name):
    assert segment(name) == name


@given(strategies.text(strategies.characters(exclude_categories=("Cs",))))
def test_every_name_survives_and_needs_no_percent_encoding(name):
    assert re.fullmatch(r"[A-Za-z0-9_.:~-]+", segment(name))
    assert segment(name) not in {".", ".."}
    assert from_segment(segment(name)) == name


def test_a_segment_typed_by_hand_is_the_name_itself():
    assert from_segment("günther und söhne") == "günther und söhne"


def test_invalid_utf8_is_replaced():
    assert from_segment("a~ffb") == "a\N{REPLACEMENT CHARACTER}b"
    assert from_segment(segment("\ud800")) == "?"
