"""Names in paths, the function for each path, and paths in JSON."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies

from offsider.config.addresses import class_path
from offsider.core.segments import from_segment, segment
from offsider.web.rendering import with_base
from offsider.web.results import NotAllowed, Text
from offsider.web.routing import LOOK, Route, Router


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


def answer(request):
    return Text("")


SHOW = Route("GET", "/queues/{name}", LOOK, answer)
CLEAR = Route("POST", "/queues/{name}/clear", "queue.clear", answer)
SCRAPE = Route("GET", "/metrics", "metrics.scrape", answer, wanted=lambda accept: "text/plain" in accept)
LOOK_AT_METRICS = Route("GET", "/metrics", LOOK, answer)
ROUTER = Router([SHOW, CLEAR, SCRAPE, LOOK_AT_METRICS])


@pytest.mark.parametrize("name", ["default", "a/b", "..", "ä ö", "", "100%", "<script>"])
def test_a_placeholder_matches_names_with_any_characters(name):
    match = ROUTER.match("GET", f"/queues/{segment(name)}")
    assert match.route is SHOW
    assert match.parts == {"name": name}


def test_a_wrong_method_lists_the_allowed_ones():
    with pytest.raises(NotAllowed) as raised:
        ROUTER.match("POST", "/queues/default")
    assert raised.value.headers == (("allow", "GET, HEAD"),)
    with pytest.raises(NotAllowed, match="This URL accepts only POST"):
        ROUTER.match("GET", "/queues/default/clear")


def test_one_address_can_have_two_routes_by_accept_header():
    assert ROUTER.match("GET", "/metrics", "text/plain").route is SCRAPE
    assert ROUTER.match("GET", "/metrics", "text/html").route is LOOK_AT_METRICS


BASE = "/jobs/@b"


def test_addresses_get_the_base_as_prefix():
    address = class_path("Mail")
    data = {"path": address, "more": "", "text": "/busy", "pages": [{"next": address}], "actions": {"/x": address}}
    assert with_base(BASE, data) == {
        "path": "/jobs/@b/class/Mail",
        "more": "",
        "text": "/busy",
        "pages": [{"next": "/jobs/@b/class/Mail"}],
        "actions": {"/x": "/jobs/@b/class/Mail"},
    }
