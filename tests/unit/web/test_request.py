"""Requests as they came."""

from __future__ import annotations

from offsider.web.request import Request, Response


def test_cookies_are_read_and_odd_ones_are_none():
    assert Request("GET", "/", headers={"cookie": "a=1; offsider_theme=dark"}).cookies["offsider_theme"] == "dark"
    assert Request("GET", "/").cookies == {}
    assert Request("GET", "/", headers={"cookie": "a[=1; b\x00"}).cookies == {}


def test_a_header_that_is_missing_is_empty():
    assert Request("GET", "/", headers={"host": "x"}).header("host") == "x"
    assert Request("GET", "/").header("host") == ""


def test_a_response_gets_further_headers():
    assert Response(200, b"x", (("a", "1"),)).with_headers(("b", "2")).headers == (("a", "1"), ("b", "2"))


def test_what_a_framework_left_stays_out_of_the_log():
    assert "secret" not in repr(Request("GET", "/", context={"session": "secret"}))
