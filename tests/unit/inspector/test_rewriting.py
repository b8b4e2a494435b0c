"""A stored job with another queue: every other byte stays as it was."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings, strategies as st

from offsider.core.payload import decode
from offsider.inspector.migration.moving import rewritten

TO_NEW = {"queue": "new"}


def moved(raw: bytes, changes=TO_NEW) -> bytes:
    return rewritten(raw, decode(raw), changes)


@pytest.mark.parametrize(
    "before, after",
    [
        (b'{"class":"A","args":[],"queue":"old","x":1}', b'{"class":"A","args":[],"queue":"new","x":1}'),
        # As other languages and people write it.
        (b' {"queue" : "old",\n "class":"A","args":[1.0e2]} ', b' {"queue" : "new",\n "class":"A","args":[1.0e2]} '),
        (b'{"class":"A","args":["\\u00e9\\/"],"queue":"o\\"ld"}', b'{"class":"A","args":["\\u00e9\\/"],"queue":"new"}'),
        # The same letters in an argument.
        (
            b'{"class":"A","args":[{"queue":"old"},"\\"queue\\":\\"old\\""],"queue":"old"}',
            b'{"class":"A","args":[{"queue":"old"},"\\"queue\\":\\"old\\""],"queue":"new"}',
        ),
        # The last of two counts, as JSON readers have it.
        (b'{"queue":"a","class":"A","args":[],"queue":"b"}', b'{"queue":"a","class":"A","args":[],"queue":"new"}'),
    ],
)
def test_the_name_is_replaced_in_place(before, after):
    assert moved(before) == after


@pytest.mark.parametrize(
    "before, after",
    [
        (b'{"class":"A","args":[]}', b'{"class":"A","args":[],"queue":"new"}'),
        (b'{"qu\\u0065ue":"old", "class":"A","args":[]}', b'{"queue":"new","class":"A","args":[]}'),
        (b'{"args":[%s1],"class":"A","queue":"old"}' % (b'{"queue":"x"},' * 30),) * 2,
    ],
)
def test_a_job_with_an_ambiguous_position_is_serialized_again(before, after):
    assert moved(before) == after.replace(b"old", b"new")


def test_several_texts_change_at_once():
    raw = b'{"class":"A","args":[], "queue":"old","idempotency_key":"1"}'
    assert moved(raw, {"queue": "new", "idempotency_key": "2"}) == raw.replace(b"old", b"new").replace(b'"1"', b'"2"')


@settings(max_examples=50, deadline=None)
@given(
    args=st.lists(st.recursive(st.text() | st.integers() | st.floats(allow_nan=False), st.lists)),
    queue=st.text(min_size=1),
    before=st.dictionaries(st.text(), st.text()),
    ascii_only=st.booleans(),
)
def test_everything_else_is_unchanged(args, queue, before, ascii_only):
    payload = {**before, "class": "A", "args": args, "queue": queue, "new": "queue"}
    payload = {
        key: value for key, value in payload.items() if key in {"class", "args", "queue", "new"} or key.isupper()
    }
    try:
        raw = json.dumps(payload, ensure_ascii=ascii_only, allow_nan=False).encode()
        decode(raw)
    except ValueError:  # not a payload
        return
    assert decode(moved(raw)) == {**payload, "queue": "new"}
    assert list(decode(moved(raw))) == list(payload)
