"""The fields of a hash, as HGETALL replies."""

from __future__ import annotations

import pytest

from offsider.core.errors import RedisRefused
from offsider.storage import hashes


def test_a_list_has_fields_and_values():
    reply = [b"a", b"1", b"b", b"2"]
    assert list(hashes.pairs(reply)) == [(b"a", b"1"), (b"b", b"2")]
    assert list(hashes.texts(reply)) == [("a", "1"), ("b", "2")]


@pytest.mark.parametrize("reply", [[], {}, None, RedisRefused("WRONGTYPE no hash")])
def test_a_value_that_is_not_a_hash_has_no_fields(reply):
    assert list(hashes.pairs(reply)) == []


def test_any_bytes_can_be_read_as_text():
    assert list(hashes.texts([b"\xff", b"\xc3\xa4"])) == [("\N{REPLACEMENT CHARACTER}", "ä")]


@pytest.mark.parametrize("stored, expected", [(b"7", 7), ("-7", -7), (7, 7), ("0" * 18, 0)])
def test_whole_numbers_are_read(stored, expected):
    assert hashes.whole(stored) == expected


@pytest.mark.parametrize(
    "stored", [None, b"", b"nan", "1.5", "1e3", b"\xff", "9" * 19, "9" * 5000, "\u0661", " 1", "1\n", "[" * 9]
)
def test_other_values_are_no_whole_number(stored):
    assert hashes.whole(stored) is None


def test_only_finite_numbers_are_read():
    assert [hashes.number(stored) for stored in (b"1.5", "-2", "1e3")] == [1.5, -2.0, 1000.0]
    odd = (None, b"", "text", "nan", "inf", "1e400", b"\xff", "[1]")
    assert [hashes.number(stored) for stored in odd] == [None] * len(odd)


def test_fields_without_a_whole_number_are_left_out():
    assert hashes.wholes([b"a", b"1", b"b", b"x", b"\xff", b"2"]) == {"a": 1, "�": 2}


def test_malformed_json_is_no_value():
    assert hashes.json_value(b'{"a":[1]}') == {"a": [1]}
    assert [hashes.json_value(raw) for raw in (b"", b"\xff", "[" * 100_000, b"9" * 5000)] == [None] * 4
