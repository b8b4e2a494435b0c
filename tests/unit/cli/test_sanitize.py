"""What others have stored is made fit for a terminal."""

import pytest

from offsider.cli.text import listed_arguments, plain, plain_arguments
from offsider.core.compression import compress
from offsider.core.payload import encode
from offsider.inspector import JobRecord


@pytest.mark.parametrize(
    "text, shown",
    [
        ("naïve 日本", "naïve 日本"),
        ("a\x1b[2Jb\nc\x07", r"a\x1b[2Jb\nc\x07"),
        ("\u202eabc", r"\u202eabc"),
        ("x" * 300, "x" * 199 + "…"),
    ],
)
def test_text_becomes_one_line_without_control_sequences(text, shown):
    assert plain(text) == shown


def test_large_arguments_are_truncated_at_any_depth():
    assert plain_arguments([1, "a", None, {"b": [2]}]) == "1, 'a', None, {'b': [2]}"
    assert len(plain_arguments(["x" * 10_000_000, list(range(1_000_000)), {"k": "v" * 10_000_000}])) <= 60
    nested: list[object] = []
    for _ in range(500):
        nested = [nested]
    assert len(plain_arguments(nested)) <= 60
    assert plain_arguments([]) == ""


def test_large_compressed_arguments_are_mentioned_but_not_expanded(monkeypatch):
    monkeypatch.setattr("offsider.inspector.job_record.readable", None)
    record = JobRecord(encode(compress({"class": "A", "args": ["x" * 300_000]})))
    assert listed_arguments(record) == "compressed, 300,004 bytes"
