"""The fields of a hash, from every representation."""

from __future__ import annotations

import pytest

from offsider.core.errors import RedisRefused
from offsider.storage import hashes


@pytest.mark.parametrize("reply", [[b"a", b"1", b"b", b"2"], {b"a": b"1", b"b": b"2"}])
def test_a_list_and_a_dict_are_the_same(reply):
    assert list(hashes.pairs(reply)) == [(b"a", b"1"), (b"b", b"2")]
    assert list(hashes.texts(reply)) == [("a", "1"), ("b", "2")]


@pytest.mark.parametrize("reply", [[], {}, None, RedisRefused("WRONGTYPE no hash")])
def test_a_value_that_is_not_a_hash_has_no_fields(reply):
    assert list(hashes.pairs(reply)) == []


def test_any_bytes_can_be_read_as_text():
    assert list(hashes.texts([b"\xff", b"\xc3\xa4"])) == [("\N{REPLACEMENT CHARACTER}", "ä")]
