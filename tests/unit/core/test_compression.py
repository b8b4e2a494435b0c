"""Compressed arguments: jobs round-trip, and crafted input does no harm."""

from __future__ import annotations

import base64
import json
import zlib

import pytest
from hypothesis import given, strategies as st

from offsider.core import compression
from offsider.core.compression import (
    MAX_EXPANDED_BYTES,
    compress,
    decode_plain,
    expand,
    is_compressed,
    may_hold,
    readable,
    values_bytes,
)
from offsider.core.errors import MalformedPayload
from offsider.core.payload import decode, encode

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text('aäß€😀"\\'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=10,
)


def packed(text: bytes) -> str:
    return base64.b64encode(zlib.compress(text)).decode()


def stored(**changes):
    payload = {"class": "A", "args": [packed(b"[1]")], "jid": "j", "compressed": True, "original_job_size_bytes": 3}
    return encode(payload | changes)


@given(st.lists(VALUES, max_size=4), st.dictionaries(st.text("xyz", min_size=1, max_size=3), VALUES, max_size=3))
def test_a_job_round_trips(args, kwargs):
    payload = {"class": "A", "args": args, "jid": "j", "queue": "q", "mine": 1}
    if kwargs:
        payload["kwargs"] = kwargs
    raw = encode(compress(payload))
    assert is_compressed(decode(raw))
    assert decode_plain(raw) == decode(encode(payload))


def test_only_the_arguments_are_compressed():
    payload = {"class": "A", "args": ["x" * 1000], "jid": "j", "queue": "q", "kwargs": {"a": 1}}
    written = compress(payload)
    assert list(written) == ["class", "args", "jid", "queue", "compressed", "original_job_size_bytes"]
    assert written["original_job_size_bytes"] == len(json.dumps(["x" * 1000])) + len('{"a":1}')
    assert payload["args"] == ["x" * 1000], "what was given has been changed"


def test_jobs_compressed_by_gitlab_are_read():
    args = json.dumps([1, {"a": "b"}]).encode()
    raw = stored(args=[packed(args)], original_job_size_bytes=len(args))
    assert decode_plain(raw) == {"class": "A", "args": [1, {"a": "b"}], "jid": "j"}


def test_a_plain_payload_stays_the_same_object():
    payload = {"class": "A", "args": [1]}
    assert expand(payload, b"") is payload


@pytest.mark.parametrize("odd", [{"compressed": True}, {"compressed": 1, "original_job_size_bytes": 1}])
def test_a_key_of_somebodys_own_does_not_make_a_job_compressed(odd):
    payload = {"class": "A", "args": [1], **odd}
    assert expand(payload, b"") is payload


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"args": []}, "list of one or two strings"),
        ({"args": [1]}, "list of one or two strings"),
        ({"args": ["a", "b", "c"]}, "list of one or two strings"),
        ({"args": ["%%%"]}, "base64"),
        ({"args": ["é"]}, "ASCII"),
        ({"args": [base64.b64encode(b"no zlib").decode()]}, "incorrect header"),
        ({"args": [base64.b64encode(zlib.compress(b"[1]")[:-2]).decode()]}, "truncated"),
        ({"args": [packed(b"{}")]}, "'args' is an object"),
        ({"args": [packed(b"[1")]}, "not JSON"),
        ({"args": [packed(b"[1]"), packed(b"[]")], "original_job_size_bytes": 9}, "'kwargs' is an array"),
        ({"args": [packed(b"[1]"), packed(b"{}")]}, "longer than"),
        ({"original_job_size_bytes": 2}, "longer than"),
        ({"original_job_size_bytes": -1}, "is not a number from 0"),
        ({"original_job_size_bytes": MAX_EXPANDED_BYTES + 1}, "is not a number from 0"),
        ({"original_job_size_bytes": True}, "is not a number from 0"),
        ({"original_job_size_bytes": "3"}, "is not a number from 0"),
        ({"args": [packed(b"[" * 600 + b"]" * 600)], "original_job_size_bytes": 1200}, "deeper than"),
    ],
)
def test_unreadable_arguments_raise_malformed_payload_with_the_reason(changes, reason):
    raw = stored(**changes)
    with pytest.raises(MalformedPayload, match=reason) as caught:
        decode_plain(raw)
    assert caught.value.raw == raw


def test_a_decompression_bomb_is_not_expanded_beyond_its_declared_size():
    bomb = packed(b"0" * 50_000_000)
    assert len(bomb) < 100_000
    with pytest.raises(MalformedPayload, match="longer than"):
        decode_plain(stored(args=[bomb], original_job_size_bytes=1_000))


@pytest.mark.parametrize(
    "value, most",
    [('{"a":0}', 500_000), ('{"a":{}}', 250_000), ("[]", 800_000), ('"ab"', 1_900_000), ("999", 1_900_000)],
)
def test_values_that_would_take_too_much_memory_are_not_expanded(value, most):
    """About 20 KB that expand to 10 MB of JSON would take 500 MB as objects."""
    text = f"[{','.join([value] * most)}]".encode()
    assert len(text) < MAX_EXPANDED_BYTES
    with pytest.raises(MalformedPayload, match=r"about \d+ MB of memory, more than 100 MB; .*client.large_payloads"):
        decode_plain(stored(args=[packed(text)], original_job_size_bytes=len(text)))


def test_a_push_does_not_compress_what_readers_refuse():
    payload = {"class": "A", "args": [{"a": 0}] * 400_000, "kwargs": {"b": 1}}
    assert compress(payload) is payload
    fewer = {"class": "A", "args": [{"a": 0}] * 300_000, "kwargs": {"b": 1}}
    assert decode_plain(encode(compress(fewer))) == fewer


@pytest.mark.parametrize("text", ['{"a":[1,2]},', '\\",', "\\\\[,"])
def test_brackets_and_commas_of_texts_are_no_values(text):
    payload = {"class": "A", "args": [text * (9_000_000 // len(json.dumps(text)))]}
    assert decode_plain(encode(compress(payload) | {"jid": "j"})) == payload | {"jid": "j"}
    assert values_bytes(b'["' + b"a," * 4_000_000) == values_bytes(b"[") == 100


def test_extra_keys_in_the_compressed_arguments_are_ignored():
    text = b'[1],"jid":"other","class":"B"'
    assert decode_plain(stored(args=[packed(text)], original_job_size_bytes=100)) == {
        "class": "A",
        "args": [1],
        "jid": "j",
    }


def test_arguments_too_large_to_decompress_stay_plain(monkeypatch):
    monkeypatch.setattr(compression, "MAX_EXPANDED_BYTES", 100)
    payload = {"class": "A", "args": ["x" * 200]}
    assert compress(payload) is payload


def test_unreadable_arguments_are_displayed_as_stored():
    good, bad = decode(stored()), decode(stored(args=["%"]))
    assert readable(good)["args"] == [1]
    assert readable(bad) is bad


def test_text_is_searched_in_compressed_arguments_without_parsing_them():
    payload = compress({"class": "A", "args": ["needle", 1], "kwargs": {"k": "other"}})
    assert may_hold(payload, b"needle")
    assert may_hold(payload, b"other")
    assert not may_hold(payload, b"nothing")
    assert may_hold({"class": "A", "args": ["x"]}, b"nothing"), "nobody looked: it is not compressed"


@pytest.mark.parametrize("changes", [{"args": ["%"]}, {"args": [7]}, {"args": [packed(b"[1")[:-4]]}])
def test_unreadable_arguments_may_match_any_text(changes):
    assert may_hold(decode(stored(**changes)), b"x")
