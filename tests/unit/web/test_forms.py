"""Fields of queries and forms have bounds."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, strategies as some

from offsider.web.request import FORM_TYPE, Fields, form_fields, query_fields
from offsider.web.results import BadRequest


def test_a_name_may_have_several_values():
    fields = form_fields(f"{FORM_TYPE}; charset=utf-8", b"key=1%7Ca&key=2&empty=")
    assert fields.all("key") == ["1|a", "2"]
    assert fields.get("key") == "1|a"
    assert fields.get("empty", "x") == ""
    assert fields.get("missing", "x") == "x"
    assert "empty" in fields
    assert "missing" not in fields


def test_a_form_has_at_most_1000_fields_and_a_query_100():
    assert len(form_fields(FORM_TYPE, b"&".join([b"key=1"] * 1000)).pairs) == 1000
    with pytest.raises(BadRequest, match="more than 1000 fields"):
        form_fields(FORM_TYPE, b"&".join([b"key=1"] * 1001))
    with pytest.raises(BadRequest, match="more than 100 fields"):
        query_fields("&".join(["a=1"] * 101))


def test_another_kind_of_body_is_refused():
    with pytest.raises(BadRequest, match="must be sent as"):
        form_fields("multipart/form-data", b"--x")


def test_an_empty_body_is_an_empty_form():
    assert form_fields("", b"").pairs == Fields().pairs == []


@given(some.binary(max_size=200))
def test_any_bytes_are_parsed_or_refused(body):
    with suppress(BadRequest):
        form_fields(FORM_TYPE, body)
