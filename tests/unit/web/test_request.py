"""Cookies, and fields of queries and forms with their bounds."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, strategies as some

from offsider.screens.errors import BadRequest
from offsider.web.request import FORM_TYPE, Request, form_fields, query_fields


def test_cookies_are_parsed_and_invalid_ones_are_ignored():
    assert Request("GET", "/", headers={"cookie": "a=1; offsider_flash=dark"}).cookies["offsider_flash"] == "dark"
    assert Request("GET", "/").cookies == {}
    assert Request("GET", "/", headers={"cookie": "a[=1; b\x00"}).cookies == {}


def test_the_context_of_a_framework_is_not_in_the_repr():
    assert "secret" not in repr(Request("GET", "/", context={"session": "secret"}))


FORM = {"content-type": FORM_TYPE}


def fields(body, **headers):
    return form_fields(Request("POST", "/", headers=FORM | headers, body=body))


def test_a_name_may_have_several_values():
    form = fields(b"key=1%7Ca&key=2&empty=", **{"content-type": f"{FORM_TYPE}; charset=UTF-8", "content-length": "22"})
    assert form.all("key") == ["1|a", "2"]
    assert form.get("key") == "1|a"
    assert form.get("empty", "x") == ""
    assert form.get("missing", "x") == "x"
    assert "empty" in form
    assert "missing" not in form


def test_a_form_has_at_most_1000_fields_and_a_query_100():
    assert len(fields(b"&".join([b"key=1"] * 1000)).pairs) == 1000
    with pytest.raises(BadRequest, match="more than 1000 fields"):
        fields(b"&".join([b"key=1"] * 1001))
    with pytest.raises(BadRequest, match="more than 100 fields"):
        query_fields("&".join(["a=1"] * 101))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "", "content-length": ""},
        {"content-length": "0"},
        {"content-type": FORM_TYPE, "content-length": "00"},
    ],
    ids=str,
)
def test_a_request_without_a_body_has_an_empty_form(headers):
    assert form_fields(Request("POST", "/", headers=headers)).pairs == []


@pytest.mark.parametrize(
    "body, headers, why",
    [
        (b"", {}, "has not arrived"),
        (b"", {"content-length": "3"}, "has not arrived"),
        (b"", {"content-length": "x"}, "has not arrived"),
        (b"", {"content-type": "", "transfer-encoding": "chunked"}, "has not arrived"),
        (b"a=1", {"content-length": "4"}, "has not arrived"),
        (b"a=1", {"content-length": "2"}, "has not arrived"),
        (b"a=1", {"content-length": "-3"}, "has not arrived"),
        (b"--x", {"content-type": "multipart/form-data"}, "must be sent as"),
        (b"", {"content-type": "application/json", "content-length": "0"}, "must be sent as"),
        (b"a=1", {"content-type": ""}, "must be sent as"),
        (b"a=1", {"content-type": f"{FORM_TYPE};charset=utf-16"}, "must be sent as"),
        (b"a=1", {"content-encoding": "gzip"}, "must be sent as"),
        (b"a=\xff", {}, "not valid UTF-8"),
        (b"a=%ff", {}, "not valid UTF-8"),
    ],
    ids=str,
)
def test_another_body_than_announced_is_refused(body, headers, why):
    with pytest.raises(BadRequest, match=why):
        fields(body, **headers)


@given(some.binary(max_size=200))
def test_any_bytes_are_parsed_or_refused(body):
    with suppress(BadRequest):
        fields(body)
