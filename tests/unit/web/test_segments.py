"""Names in paths survive whatever lies between a browser and us."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies

from offsider.web.segments import from_segment, segment


@pytest.mark.parametrize("name", ["default", "low-1", "mail:out", "a.b_c", "f9b8e2a1c3d4e5f60718293a"])
def test_the_usual_names_stay_as_they_are(name):
    assert segment(name) == name


@given(strategies.text(strategies.characters(exclude_categories=("Cs",))))
def test_every_name_comes_back_and_needs_no_escape_on_the_way(name):
    assert re.fullmatch(r"[A-Za-z0-9_.:~-]+", segment(name))
    assert segment(name) not in {".", ".."}
    assert from_segment(segment(name)) == name


def test_a_segment_that_somebody_typed_means_itself():
    assert from_segment("günther und söhne") == "günther und söhne"


def test_bytes_that_are_no_text_are_read_without_an_error():
    assert from_segment("a~ffb") == "a\N{REPLACEMENT CHARACTER}b"
    assert from_segment(segment("\ud800")) == "?"
