"""Backtraces travel compressed, as Sidekiq's versions write them."""

import base64
import json
import zlib

import pytest
from hypothesis import given, strategies as st

from offsider.core.compression import MAX_INFLATED_BYTES, compress_backtrace, expand_backtrace


@given(st.lists(st.text()), st.sampled_from([6, 7, 8]))
def test_lines_of_every_version_are_read(lines, version):
    assert expand_backtrace(compress_backtrace(lines, version)) == lines


def test_8_writes_one_line_and_6_lines_of_60():
    lines = [f"app.py:{number}:in `perform'" for number in range(200)]
    assert "\n" not in compress_backtrace(lines, 8)
    assert compress_backtrace(lines, 8).startswith("eJ")
    rows = compress_backtrace(lines, 6).split("\n")
    assert rows[-1] == ""
    assert {len(row) for row in rows[:-2]} == {60}
    assert "".join(rows) == compress_backtrace(lines, 7)


def test_a_file_name_that_is_not_unicode_is_supported():
    assert expand_backtrace(compress_backtrace(["\udcff.py:1"], 8)) == ["?.py:1"]


@pytest.mark.parametrize(
    "text",
    ["", "not base64!", base64.b64encode(b"not zlib").decode(), base64.b64encode(zlib.compress(b"7")).decode()],
    ids=["empty", "no base64", "no zlib", "no list"],
)
def test_a_value_without_lines_raises_value_error(text):
    with pytest.raises(ValueError):
        expand_backtrace(text)


def test_a_bomb_is_not_inflated():
    bomb = zlib.compress(json.dumps(["x" * (2 * MAX_INFLATED_BYTES)]).encode())
    with pytest.raises(ValueError):
        expand_backtrace(base64.b64encode(bomb).decode())


def test_a_bomb_of_short_lines_is_not_parsed():
    bomb = zlib.compress(b"[" + b'"",' * 4_000_000 + b'""]')
    with pytest.raises(ValueError, match="more values"):
        expand_backtrace(base64.b64encode(bomb).decode())
