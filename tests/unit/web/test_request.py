"""Parsing requests."""

from __future__ import annotations

from offsider.web.request import Request, Response


def test_cookies_are_parsed_and_invalid_ones_are_ignored():
    assert Request("GET", "/", headers={"cookie": "a=1; offsider_theme=dark"}).cookies["offsider_theme"] == "dark"
    assert Request("GET", "/").cookies == {}
    assert Request("GET", "/", headers={"cookie": "a[=1; b\x00"}).cookies == {}


def test_a_header_that_is_missing_is_empty():
    assert Request("GET", "/", headers={"host": "x"}).header("host") == "x"
    assert Request("GET", "/").header("host") == ""


def test_headers_can_be_added_to_a_response():
    assert Response(200, b"x", (("a", "1"),)).with_headers(("b", "2")).headers == (("a", "1"), ("b", "2"))


def test_the_context_of_a_framework_is_not_in_the_repr():
    assert "secret" not in repr(Request("GET", "/", context={"session": "secret"}))
