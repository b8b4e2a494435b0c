"""One request as a page sees it."""

from __future__ import annotations

import pytest

from offsider.config.config import Config
from offsider.screens.errors import BadRequest
from offsider.screens.translation import english
from offsider.web.page_request import PageRequest, WebOptions
from offsider.web.request import Fields, Request


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
    assert page_request(form=[("key", "a"), ("key", "b")]).all("key") == ["a", "b"]
    with pytest.raises(BadRequest):
        page_request(form=[("key", "a")] * 1001).all("key")
    with pytest.raises(BadRequest):
        page_request(form=[("key", "a" * 501)]).all("key")


def test_addresses_have_the_mount_path_and_the_server():
    assert page_request(root="/jobs").url("/busy", page=2, q="") == "/jobs/busy?page=2"
    assert page_request(root="/jobs", server="other one").url("/busy") == "/jobs/@other~20one/busy"
    shown = page_request([("q", "kim & tim"), ("page", "3")])
    assert shown.this_page(page=None) == "/busy?q=kim+%26+tim"
    assert shown.this_page(page=4) == "/busy?q=kim+%26+tim&page=4"
    assert page_request().url("/busy", q="\ud800") == "/busy?q=%3F"


def test_the_application_decides_what_a_user_may_do():
    assert page_request().may("queue.clear")
    assert not page_request(read_only=True).may("queue.clear")
    assert not page_request(authorize=lambda visitor, action: action == "page").may("queue.clear")
    assert page_request(authorize=lambda visitor, action: visitor.server == "main").may("queue.clear")


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
