"""The function for each path."""

from __future__ import annotations

import pytest

from offsider.web.results import NotAllowed, NotFound, Text
from offsider.web.routing import LOOK, PREFER, Route, Router
from offsider.web.segments import segment


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


def test_head_matches_get_routes():
    assert ROUTER.match("HEAD", "/queues/default").route is SHOW


def test_an_unknown_path_is_not_found():
    for path in ("/", "/queues", "/queues/a/b", "/queues/default/", "//queues/default"):
        with pytest.raises(NotFound):
            ROUTER.match("GET", path)


def test_a_wrong_method_lists_the_allowed_ones():
    with pytest.raises(NotAllowed) as raised:
        ROUTER.match("POST", "/queues/default")
    assert raised.value.allowed == "GET, HEAD"
    with pytest.raises(NotAllowed, match="This URL accepts only POST"):
        ROUTER.match("GET", "/queues/default/clear")


def test_one_address_can_have_two_routes_by_accept_header():
    assert ROUTER.match("GET", "/metrics", "text/plain").route is SCRAPE
    assert ROUTER.match("GET", "/metrics", "text/html").route is LOOK_AT_METRICS


def test_pages_and_preferences_are_not_changes():
    assert CLEAR.changes
    assert not SHOW.changes
    assert not Route("POST", "/change_theme", PREFER, answer).changes
