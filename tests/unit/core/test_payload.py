"""Payloads round-trip, and bytes that cannot be written again are refused on reading."""

import json
import random
import struct
import sys
from unittest.mock import Mock

import pytest
from hypothesis import given, strategies as st

from offsider.core import payload as module
from offsider.core.errors import MalformedPayload, SoftTimeout
from offsider.core.payload import decode, encode, encode_text, new_jid, new_jids, read_stamp, stamp, use_msgspec

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
def test_a_value_is_written_as_json_writes_it(value):
    assert encode_text(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@pytest.fixture(params=["standard library", "msgspec"])
def reader(request, monkeypatch):
    monkeypatch.setattr(module, "_read_first", module._read)
    if request.param == "msgspec":
        use_msgspec()
        assert module._read_first is not module._read


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
def test_invalid_bytes_are_malformed_with_a_reason(reader, raw, reason):
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
def test_odd_but_usable_payloads_are_read(reader, raw):
    assert decode(raw)["class"] == "X"


def test_numbers_of_any_size_survive(reader):
    payload = decode(b'{"class":"X","args":[1180591620717411303424,0.1,1.0e+20,-0.0]}')
    assert payload["args"] == [2**70, 0.1, 1e20, 0.0]
    assert json.loads(encode(payload)) == payload


SPECIAL_NUMBERS = ["-0", "-0.0", "01", "1.", ".5", "-", "1E+400", "1e-400", "18446744073709551616", "NaN", "-Infinity"]
SPECIAL_TEXTS = ["\x00", "\n", "\\x", "\\u12", "\\ud800", "\\uDC00", "\\ud83d"]
TEXTS = [*"a9 /é日😀\u2028\x7f", "\\n", '\\"', "\\\\", "\\/", "\\u0000", "\\u00e9", "\\ud83d\\ude00"]
FRAGMENTS = [*'{}[],: 0"\\\ufeff\x00', "-0", "true", "nul", '"a"', '"\\udc00"', "/**/", "1e5", '{"a":1,"a":2}']


class Documents:
    """Random documents, most of them JSON, in all forms that decoders could read in different ways."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def next(self, number: int) -> bytes:
        if number % 8 == 0:
            return "".join(self._random.choices(FRAGMENTS, k=6)).encode()
        document = bytearray(self._value(0).encode())
        if number % 8 == 1:
            document[self._random.randrange(len(document))] = self._random.randrange(256)
        return bytes(document)

    def _value(self, level: int) -> str:
        chosen, space = self._random.random(), self._random.choice(("", "", " \n"))
        if chosen < 0.3:
            return self._number()
        if chosen < 0.6 or level > 3:
            return self._text()
        values = [self._value(level + 1) for _ in range(self._random.randint(0, 3))]
        if chosen < 0.8:
            return f"[{space}{f',{space}'.join(values)}]"
        return f"{{{','.join(f'{self._text()}{space}:{value}' for value in values)}{space}}}"

    def _number(self) -> str:
        digits = self._random.getrandbits(self._random.choice((8, 53, 63, 64, 65, 128, 400)))
        floating = repr(struct.unpack("d", self._random.randbytes(8))[0]).replace("nan", "NaN").replace("inf", "1e999")
        exponent = f"{digits}.{digits}e{self._random.randint(-340, 320)}"
        return self._random.choice((str(digits), f"-{digits}", floating, exponent, self._special(SPECIAL_NUMBERS, "1")))

    def _text(self) -> str:
        return (
            f'"{"".join(self._random.choices(TEXTS, k=self._random.randint(0, 6)))}{self._special(SPECIAL_TEXTS, "")}"'
        )

    def _special(self, specials: list[str], usual: str) -> str:
        return self._random.choice(specials) if self._random.random() < 0.05 else usual


def read(document: bytes) -> str:
    """What `decode` reads, stored again, or the reason of its refusal."""
    try:
        return encode(decode(b'{"class":"X","args":[],"a":' + document + b"}")).decode()
    except MalformedPayload as error:
        return error.reason


def test_msgspec_and_the_standard_library_read_the_same_of_100_000_documents(monkeypatch):
    documents = [*map(Documents(63).next, range(100_000))]
    monkeypatch.setattr(module, "_read_first", module._read)
    standard = [*map(read, documents)]
    use_msgspec()
    assert [
        (document, a, b) for document, a, b in zip(documents, standard, map(read, documents), strict=True) if a != b
    ] == []
    assert 50_000 < sum(text.startswith("{") for text in standard) < 90_000


def test_without_msgspec_the_standard_library_decodes(monkeypatch):
    monkeypatch.setitem(sys.modules, "msgspec", None)
    monkeypatch.setattr(module, "_read_first", module._read)
    use_msgspec()
    assert module._read_first is module._read


def test_an_error_that_interrupts_a_job_passes(reader, monkeypatch):
    monkeypatch.setattr(module, "_read_first", Mock(side_effect=SoftTimeout))
    with pytest.raises(SoftTimeout):
        decode(b"{}")


def test_jids_are_24_hex_digits_and_differ():
    jids = {new_jid() for _ in range(1000)} | set(new_jids(1000))
    assert len(jids) == 2000
    assert all(len(jid) == 24 and int(jid, 16) >= 0 for jid in jids)


@pytest.mark.parametrize("version, expected", [(8, "1795216780652"), (7, "1795216780.6525"), (6, "1795216780.6525")])
def test_stamps_are_milliseconds_in_8_and_seconds_before(version, expected):
    assert repr(stamp(1795216780.6525, version)) == expected


@pytest.mark.parametrize(
    "value, seconds",
    [
        (1795216780652, 1795216780.652),
        (1795216768.5, 1795216768.5),
        (None, None),
        ("1", None),
        (True, None),
        (10**400, None),
    ],
)
def test_stamps_of_all_versions_are_read(value, seconds):
    assert read_stamp(value) == seconds


def test_a_continued_job_is_enqueued_now():
    raw = encode({"class": "A", "args": [], "jid": "1", "enqueued_at": 5})
    assert module.continued(raw, 7.5, 8) == encode({"class": "A", "args": [], "jid": "1", "enqueued_at": 7500})
    assert module.continued(b"no job", 7.5, 8) == b"no job"
