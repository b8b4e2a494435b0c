"""Payloads round-trip, and bytes that cannot be written again are refused on reading."""

import json

import pytest
from hypothesis import given, strategies as st

from offsider.core import payload as payload_module
from offsider.core.errors import MalformedPayload
from offsider.core.payload import decode, encode, encode_text, new_jid, new_jids, read_stamp, stamp

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
KEYS = st.text().filter(lambda key: key not in ("class", "args")) | st.sampled_from(["kwargs", "jid", "retry", "dead"])


@given(args=st.lists(JSON, max_size=4), foreign=st.dictionaries(KEYS, JSON))
def test_a_payload_survives_encoding_and_decoding_with_all_foreign_keys(args, foreign):
    payload = {"class": "HardJob", "args": args, **foreign}
    again = decode(encode(payload))
    assert again == payload
    assert list(again) == list(payload)
    assert encode(again) == encode(payload)


@given(st.binary(max_size=200))
def test_random_bytes_are_malformed_and_nothing_worse(raw):
    with pytest.raises(MalformedPayload) as caught:
        decode(raw)
    assert caught.value.raw == raw


@given(st.text(alphabet='{}[]":,\\ud8c0e19.-+ntrfalsi', max_size=60))
def test_almost_json_never_loads_into_something_that_cannot_be_written_again(text):
    raw = f'{{"class":"X","args":[{text}]}}'.encode()
    try:
        payload = decode(raw)
    except MalformedPayload:
        return
    assert decode(encode(payload)) == payload


def test_text_is_written_raw_and_compact():
    raw = encode({"a": 'café <b>&</b> \u2028 日本 😀 " \\ / \t\x01', "b": [1, 1.0, 2**70]})
    assert (
        raw == '{"a":"café <b>&</b> \u2028 日本 😀 \\" \\\\ / \\t\\u0001","b":[1,1.0,1180591620717411303424]}'.encode()
    )


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), object(), "\ud800", {1j: 1}], ids=["nan", "inf", "object", "surrogate", "key"]
)
def test_bytes_that_are_not_json_raise_value_error(value):
    with pytest.raises(ValueError):
        encode({"class": "X", "args": [value]})


def test_endless_nesting_raises_value_error():
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(ValueError):
        encode({"args": endless})
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="nested"):
        encode({"args": deep})


@given(JSON)
def test_a_python_without_the_encoder_in_c_writes_the_same(value):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("json.encoder.c_make_encoder", None)
        assert payload_module._text_encoder()(value) == encode_text(value)


def nested(levels: int) -> bytes:
    return b'{"class":"X","args":' + b"[" * levels + b"]" * levels + b"}"


@pytest.mark.parametrize(
    "raw, reason",
    [
        (b"not json{", "not JSON"),
        (b"", "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b'\xef\xbb\xbf{"class":"X","args":[]}', "not JSON"),
        (b"[1]", "expected an object, got an array"),
        (b'"text"', "expected an object, got a string"),
        (b"null", "expected an object"),
        (b"{}", "has no 'class'"),
        (b'{"class":"X"}', "has no 'args'"),
        (b'{"args":[]}', "has no 'class'"),
        (b'{"class":"","args":[]}', "'class' is empty"),
        (b'{"class":null,"args":[]}', "'class' is null, expected a string"),
        (b'{"class":"X","args":{}}', "'args' is an object, expected an array"),
        (b'{"class":"X","args":"1"}', "'args' is a string"),
        (b'{"class":"X","args":["\\ud800"]}', "lone surrogate"),
        (b'{"class":"X","args":["\\uDFFF"]}', "lone surrogate"),
        (b'{"class":"X","args":[],"\\ud800":1}', "lone surrogate"),
        (b'{"class":"X","args":[1e400]}', "out of range"),
        (b'{"class":"X","args":[-1e400]}', "out of range"),
        (b'{"class":"X","args":[NaN]}', "NaN is not JSON"),
        (b'{"class":"X","args":[-Infinity]}', "-Infinity is not JSON"),
        (b'{"class":"X","args":[' + b"9" * 5000 + b"]}", "not JSON"),
        (nested(5000), "nested deeper than 500"),
        (nested(500), "nested deeper than 500"),
    ],
    ids=lambda value: value[:40] if isinstance(value, bytes) else "",
)
def test_invalid_bytes_are_malformed_with_a_reason(raw, reason):
    with pytest.raises(MalformedPayload) as caught:
        decode(raw)
    assert reason in caught.value.reason
    assert caught.value.raw == raw


@pytest.mark.parametrize(
    "raw",
    [
        b'{"class":"X","args":[]}',
        b'{"class":"X","args":[],"retry":null,"dead":null,"tags":null,"backtrace":null,"retry_queue":null}',
        b'{"class":"X","args":["\\ud83d\\ude00"]}',
        nested(499),
        b'{"class":"X","args":[' + b",".join([b"[]"] * 2000) + b"]}",
    ],
    ids=["least", "nulls", "pair of surrogates", "deeper than we push", "wide"],
)
def test_odd_but_usable_payloads_are_read(raw):
    assert decode(raw)["class"] == "X"


def test_numbers_of_any_size_survive():
    payload = decode(b'{"class":"X","args":[1180591620717411303424,0.1,1.0e+20,-0.0]}')
    assert payload["args"] == [2**70, 0.1, 1e20, 0.0]
    assert json.loads(encode(payload)) == payload


def test_jids_are_24_hex_digits_and_differ():
    jids = {new_jid() for _ in range(1000)} | set(new_jids(1000))
    assert len(jids) == 2000
    assert all(len(jid) == 24 and int(jid, 16) >= 0 for jid in jids)


@pytest.mark.parametrize("version, expected", [(8, "1795216780652"), (7, "1795216780.6525"), (6, "1795216780.6525")])
def test_stamps_are_milliseconds_in_8_and_seconds_before(version, expected):
    assert repr(stamp(1795216780.6525, version)) == expected


def test_a_whole_second_keeps_its_fraction_before_8():
    assert encode({"created_at": stamp(1795216768, 6)}) == b'{"created_at":1795216768.0}'


@pytest.mark.parametrize(
    "value, seconds",
    [(1795216780652, 1795216780.652), (1795216768.5, 1795216768.5), (None, None), ("1", None), (True, None)],
)
def test_stamps_of_all_versions_are_read(value, seconds):
    assert read_stamp(value) == seconds


def test_an_impossible_timestamp_is_none():
    assert read_stamp(10**400) is None
