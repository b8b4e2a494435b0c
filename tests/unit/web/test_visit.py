"""One request as a page sees it."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, strategies as some

from offsider.web.answers import BadRequest
from offsider.web.forms import Fields
from offsider.web.options import WebOptions
from offsider.web.request import Request
from offsider.web.translation import Locale
from offsider.web.visit import Visit
from offsider.wiring.config import Config


def visit(query=(), form=(), *, server="main", root="", location="/busy", accept="text/html", **options):
    servers = {"main": Config(), "other one": Config()}
    return Visit(
        request=Request("GET", location, root=root, headers={"accept": accept}),
        options=WebOptions(servers, **options),
        server=server,
        location=location,
        query=Fields(list(query)),
        form=Fields(list(form)),
        locale=Locale("en"),
    )


def test_a_number_is_read_within_its_bounds():
    assert visit().number("page") == 1
    assert visit([("page", "7")]).number("page") == 7
    assert visit([("page", "7")], [("page", "8")]).number("page") == 8
    assert visit([("days", "-3")]).number("days", lowest=-5) == -3


@pytest.mark.parametrize("text", ["0", "1000001", "9" * 4000, "1.5", "x", "٣", "1e3", "+1", " 1"])
def test_any_other_number_is_refused(text):
    with pytest.raises(BadRequest, match="page has to be a whole number from 1 to 1000000"):
        visit([("page", text)]).number("page")


@given(some.text(max_size=30))
def test_whatever_is_sent_as_a_number_it_is_one_or_refused(text):
    with suppress(BadRequest):
        assert 1 <= visit([("page", text)]).number("page") <= 1_000_000


def test_a_choice_is_one_of_its_words():
    assert visit().choice("period", ("1h", "2h"), "1h") == "1h"
    assert visit([("period", "2h")]).choice("period", ("1h", "2h"), "1h") == "2h"
    with pytest.raises(BadRequest, match="one of 1h, 2h"):
        visit([("period", "<script>")]).choice("period", ("1h", "2h"), "1h")


def test_a_text_has_bounds_too():
    assert visit([("q", "  kim ")]).text("q") == "kim"
    with pytest.raises(BadRequest, match="at most 100 letters"):
        visit([("q", "x" * 101)]).text("q")


def test_what_was_selected_has_bounds_in_both_directions():
    assert visit(form=[("key", "a"), ("key", "b")]).selected("key") == ["a", "b"]
    with pytest.raises(BadRequest):
        visit(form=[("key", "a")] * 3).selected("key", most=2)
    with pytest.raises(BadRequest):
        visit(form=[("key", "a" * 501)]).selected("key")


def test_addresses_have_the_root_and_the_server():
    assert visit(root="/jobs").url("/busy", page=2, q="") == "/jobs/busy?page=2"
    assert visit(root="/jobs", server="other one").url("/busy") == "/jobs/@other~20one/busy"
    shown = visit([("q", "kim & tim"), ("page", "3")])
    assert shown.here(page=None) == "/busy?q=kim+%26+tim"
    assert shown.here(page=4) == "/busy?q=kim+%26+tim&page=4"
    assert visit().url("/busy", q="\ud800") == "/busy?q=%3F"


def test_programs_are_told_apart_from_people():
    assert not visit().wants_json
    assert not visit(accept="text/html,application/json").wants_json
    assert visit(accept="application/json").wants_json
    assert visit([("format", "json")]).wants_json
    assert not visit([("format", "html")], accept="application/json").wants_json


def test_an_action_is_confirmed_by_a_field_or_by_a_program():
    assert not visit().is_confirmed
    assert visit(form=[("confirmed", "yes")]).is_confirmed
    assert visit(accept="application/json").is_confirmed


def test_what_a_visitor_may_do_is_decided_by_the_application():
    assert visit().may("queue.clear")
    assert not visit(read_only=True).may("queue.clear")
    assert not visit(authorize=lambda visitor, action: action == "page").may("queue.clear")
    assert visit(authorize=lambda visitor, action: visitor.server == "main").may("queue.clear")


def test_arguments_go_through_the_applications_hook():
    hidden = visit(redact=lambda name, args, kwargs: ([name], {}))
    assert hidden.redacted("mail", ["secret"], {"a": 1}) == (["mail"], {})


def test_texts_are_translated_into_the_visitors_language():
    assert visit().t("Jobs: {count}", count=1234) == "Jobs: 1,234"
