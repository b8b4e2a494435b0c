"""One request as a page sees it."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, strategies as some

from offsider.config.config import Config
from offsider.web.options import WebOptions
from offsider.web.page_request import PageRequest
from offsider.web.request import Fields, Request
from offsider.web.results import BadRequest
from offsider.web.translation import english


def page_request(
    query=(), form=(), *, server="main", root="", location="/busy", accept="text/html", referer="", **options
):
    servers = {"main": Config(), "other one": Config()}
    return PageRequest(
        http=Request(
            "GET", location, root=root, headers={"accept": accept, "host": "jobs.example", "referer": referer}
        ),
        options=WebOptions(servers, **options),
        server=server,
        location=location,
        query=Fields(list(query)),
        form=Fields(list(form)),
        locale=english(),
    )


def test_a_number_is_read_within_its_bounds():
    assert page_request().number("page") == 1
    assert page_request([("page", "7")]).number("page") == 7
    assert page_request([("page", "7")], [("page", "8")]).number("page") == 8
    assert page_request([("days", "-3")]).number("days", lowest=-5) == -3


@pytest.mark.parametrize("text", ["0", "1000001", "9" * 4000, "1.5", "x", "٣", "1e3", "+1", " 1"])
def test_invalid_numbers_are_refused(text):
    with pytest.raises(BadRequest, match="page must be a whole number from 1 to 1,000,000"):
        page_request([("page", text)]).number("page")


@given(some.text(max_size=30))
def test_any_text_is_a_number_within_bounds_or_refused(text):
    with suppress(BadRequest):
        assert 1 <= page_request([("page", text)]).number("page") <= 1_000_000


def test_a_choice_is_one_of_its_values():
    assert page_request().choice("period", ("1h", "2h"), "1h") == "1h"
    assert page_request([("period", "2h")]).choice("period", ("1h", "2h"), "1h") == "2h"
    with pytest.raises(BadRequest, match="one of 1h, 2h"):
        page_request([("period", "<script>")]).choice("period", ("1h", "2h"), "1h")


def test_a_text_has_a_maximum_length():
    assert page_request([("q", "  kim ")]).text("q") == "kim"
    with pytest.raises(BadRequest, match="at most 100 characters"):
        page_request([("q", "x" * 101)]).text("q")


def test_selected_values_have_a_maximum_number_and_length():
    assert page_request(form=[("key", "a"), ("key", "b")]).selected("key") == ["a", "b"]
    with pytest.raises(BadRequest):
        page_request(form=[("key", "a")] * 3).selected("key", most=2)
    with pytest.raises(BadRequest):
        page_request(form=[("key", "a" * 501)]).selected("key")


def test_addresses_have_the_mount_path_and_the_server():
    assert page_request(root="/jobs").url("/busy", page=2, q="") == "/jobs/busy?page=2"
    assert page_request(root="/jobs", server="other one").url("/busy") == "/jobs/@other~20one/busy"
    shown = page_request([("q", "kim & tim"), ("page", "3")])
    assert shown.here(page=None) == "/busy?q=kim+%26+tim"
    assert shown.here(page=4) == "/busy?q=kim+%26+tim&page=4"
    assert page_request().url("/busy", q="\ud800") == "/busy?q=%3F"


def test_programs_are_distinguished_from_browsers():
    assert not page_request().wants_json
    assert not page_request(accept="text/html,application/json").wants_json
    assert page_request(accept="application/json").wants_json
    assert page_request([("format", "json")]).wants_json
    assert not page_request([("format", "html")], accept="application/json").wants_json


def test_an_action_is_confirmed_by_a_field_or_by_a_program():
    assert not page_request().is_confirmed
    assert page_request(form=[("confirmed", "yes")]).is_confirmed
    assert page_request(accept="application/json").is_confirmed


def test_the_application_decides_what_a_user_may_do():
    assert page_request().may("queue.clear")
    assert not page_request(read_only=True).may("queue.clear")
    assert not page_request(authorize=lambda visitor, action: action == "page").may("queue.clear")
    assert page_request(authorize=lambda visitor, action: visitor.server == "main").may("queue.clear")


def test_messages_are_looked_up_by_id():
    assert page_request().t("jobs.count", count=1234) == english().translate("jobs.count", count=1234)


@pytest.mark.parametrize(
    "referer, came_from",
    [
        ("http://jobs.example/app/retries?page=2&order=latest", "/retries?page=2&order=latest"),
        ("https://jobs.example/app/", "/"),
        ("http://jobs.example/elsewhere", ""),
        ("http://jobs.example/apples/retries", ""),
        ("http://evil.example/app/retries", ""),
        ("http://jobs.example//app/retries", ""),
        ("http://[jobs.example/app/", ""),
        ("", ""),
    ],
)
def test_the_referring_page_is_our_own_or_unknown(referer, came_from):
    assert page_request(root="/app", referer=referer).came_from == came_from
