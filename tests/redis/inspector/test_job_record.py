"""A stored job as people look at it, whoever wrote it, and whatever it is."""

from __future__ import annotations

import json

import pytest

from offsider.inspector import JobRecord
from tests.redis.inspector.payloads import JID, LINES, failed_job


@pytest.mark.parametrize("version", [6, 7, 8])
def test_a_job_of_every_sidekiq_says_the_same(version):
    record = JobRecord(failed_job(version))
    assert not record.malformed
    assert (record.jid, record.name, record.args, record.queue) == (JID, "HardJob", [1, "é"], "low")
    assert (record.created_at, record.enqueued_at) == (1795216780.652, 1795216781.652)
    assert (record.failed_at, record.retried_at) == (1795216782.652, 1795216790.652)
    assert record.error_backtrace == LINES
    assert repr(record) == f"<JobRecord 'HardJob' {JID}>"


def test_what_a_job_does_not_tell_is_empty():
    record = JobRecord(b'{"class":"HardJob","args":[]}')
    assert (record.jid, record.queue, record.error_backtrace) == ("", "", [])
    assert record.created_at is record.enqueued_at is record.failed_at is record.retried_at is None


@pytest.mark.parametrize("raw", [b"", b"hello", b"[1]", b"\xff\x00", b'{"class":7,"args":[]}', b'{"class":"X"}'])
def test_bytes_that_are_no_job_can_be_looked_at(raw):
    record = JobRecord(raw)
    assert record.malformed
    assert record.payload is None
    assert record.raw == raw
    assert (record.jid, record.name, record.args, record.queue) == ("", "", [], "")
    assert record.error_backtrace == []
    assert repr(raw) in repr(record)


@pytest.mark.parametrize(
    "stored, lines",
    [
        (["a.rb:1", "b.rb:2"], ["a.rb:1", "b.rb:2"]),  # Sidekiq before 5.2.6
        ("not base64 of anything", []),
        ("aGVsbG8=", []),
        (7, []),
        (None, []),
        ("", []),
    ],
)
def test_a_backtrace_that_cannot_be_inflated_breaks_no_page(stored, lines):
    record = JobRecord(json.dumps({"class": "X", "args": [], "error_backtrace": stored}).encode())
    assert record.error_backtrace == lines


@pytest.mark.parametrize("value", ["yesterday", True, [], 10**400])
def test_a_time_that_is_none_is_unknown(value):
    assert JobRecord(json.dumps({"class": "X", "args": [], "created_at": value}).encode()).created_at is None
