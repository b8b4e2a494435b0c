"""Which function answers which path."""

from __future__ import annotations

import pytest

from offsider.web.answers import NotAllowed, NotFound, Text
from offsider.web.routing import LOOK, PREFER, Route, Router
from offsider.web.segments import segment


def answer(visit):
    return Text("")


SHOW = Route("GET", "/queues/{name}", LOOK, answer)
CLEAR = Route("POST", "/queues/{name}/clear", "queue.clear", answer)
SCRAPE = Route("GET", "/metrics", "metrics.scrape", answer, wanted=lambda accept: "text/plain" in accept)
LOOK_AT_METRICS = Route("GET", "/metrics", LOOK, answer)
ROUTER = Router([SHOW, CLEAR, SCRAPE, LOOK_AT_METRICS])


@pytest.mark.parametrize("name", ["default", "a/b", "..", "ä ö", "", "100%", "<script>"])
def test_a_part_of_the_path_is_a_name_whatever_letters_it_has(name):
    match = ROUTER.match("GET", f"/queues/{segment(name)}")
    assert match.route is SHOW
    assert match.parts == {"name": name}


def test_head_is_answered_like_get():
    assert ROUTER.match("HEAD", "/queues/default").route is SHOW


def test_a_path_that_nobody_has_is_not_found():
    for path in ("/", "/queues", "/queues/a/b", "/queues/default/", "//queues/default"):
        with pytest.raises(NotFound):
            ROUTER.match("GET", path)


def test_another_method_is_told_which_are_taken():
    with pytest.raises(NotAllowed) as raised:
        ROUTER.match("POST", "/queues/default")
    assert raised.value.allowed == "GET, HEAD"
    with pytest.raises(NotAllowed, match="This address takes POST"):
        ROUTER.match("GET", "/queues/default/clear")


def test_one_address_may_mean_two_things_by_what_is_accepted():
    assert ROUTER.match("GET", "/metrics", "text/plain").route is SCRAPE
    assert ROUTER.match("GET", "/metrics", "text/html").route is LOOK_AT_METRICS


def test_looking_and_preferring_change_nothing():
    assert CLEAR.changes
    assert not SHOW.changes
    assert not Route("POST", "/change_theme", PREFER, answer).changes
