"""Fields of queries and forms have bounds."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, strategies as some

from offsider.web.answers import BadRequest
from offsider.web.forms import FORM_TYPE, Fields, form_fields, query_fields


def test_a_name_may_have_several_values():
    fields = form_fields(f"{FORM_TYPE}; charset=utf-8", b"key=1%7Ca&key=2&empty=")
    assert fields.all("key") == ["1|a", "2"]
    assert fields.get("key") == "1|a"
    assert fields.get("empty", "x") == ""
    assert fields.get("missing", "x") == "x"
    assert "empty" in fields
    assert "missing" not in fields


def test_a_form_has_a_thousand_fields_at_most_and_a_query_a_hundred():
    assert len(form_fields(FORM_TYPE, b"&".join([b"key=1"] * 1000)).pairs) == 1000
    with pytest.raises(BadRequest, match="more than 1000 fields"):
        form_fields(FORM_TYPE, b"&".join([b"key=1"] * 1001))
    with pytest.raises(BadRequest, match="more than 100 fields"):
        query_fields("&".join(["a=1"] * 101))


def test_another_kind_of_body_is_refused():
    with pytest.raises(BadRequest, match="send fields as"):
        form_fields("multipart/form-data", b"--x")


def test_no_body_is_no_form():
    assert form_fields("", b"").pairs == Fields().pairs == []


@given(some.binary(max_size=200))
def test_whatever_bytes_come_they_are_read_or_refused(body):
    with suppress(BadRequest):
        form_fields(FORM_TYPE, body)
