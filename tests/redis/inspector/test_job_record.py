"""A stored job as shown to people, from any client and for any bytes."""

from __future__ import annotations

import json
import time

import pytest

from offsider.core.compression import compress
from offsider.core.payload import encode
from offsider.inspector import JobRecord
from tests.redis.inspector.payloads import JID, LINES, failed_job


@pytest.mark.parametrize("version", [6, 7, 8])
def test_jobs_of_all_sidekiq_versions_are_read_alike(version):
    record = JobRecord(failed_job(version))
    assert not record.malformed
    assert (record.jid, record.name, record.args, record.queue) == (JID, "HardJob", [1, "é"], "low")
    assert (record.created_at, record.enqueued_at) == (1795216780.652, 1795216781.652)
    assert (record.failed_at, record.retried_at) == (1795216782.652, 1795216790.652)
    assert record.error_backtrace == LINES
    assert repr(record) == f"<JobRecord 'HardJob' {JID}>"


def test_missing_fields_of_a_job_are_empty():
    record = JobRecord(b'{"class":"HardJob","args":[]}')
    assert (record.jid, record.queue, record.error_backtrace) == ("", "", [])
    assert record.created_at is record.enqueued_at is record.failed_at is record.retried_at is None


@pytest.mark.parametrize("raw", [b"", b"hello", b"[1]", b"\xff\x00", b'{"class":7,"args":[]}', b'{"class":"X"}'])
def test_bytes_that_are_not_a_job_can_be_shown(raw):
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


@pytest.mark.parametrize("value", ["yesterday", True, [], 10**400, -1, -0.5, 1e300, 253402300800.0, 10**18])
def test_an_invalid_time_is_unknown(value):
    assert JobRecord(json.dumps({"class": "X", "args": [], "created_at": value}).encode()).created_at is None


def test_a_failed_job_has_its_error():
    record = JobRecord(failed_job(8))
    assert (record.error_class, record.error_message, record.retry_count) == ("RuntimeError", "boom", 2)
    assert (record["retry"], record["nothing"]) == (25, None)
    assert (record.display_class, record.display_args, record.kwargs) == ("HardJob", [1, "é"], {})
    assert record.key_part == record.jid
    assert record.position is None


def test_context_and_caller_are_read_from_the_payload():
    stored = {
        "class": "X",
        "args": [],
        "kwargs": {"colour": "blue"},
        "tags": ["vip", 7],
        "bid": "b1",
        "meta.caller_id": "web/orders",
        "meta.user": 7,
        "correlation_id": "abc",
        "metadata": "no",
    }
    record = JobRecord(json.dumps(stored).encode(), "low", 3)
    assert record.caller == "web/orders"
    assert record.context == {"meta.caller_id": "web/orders", "meta.user": 7, "correlation_id": "abc"}
    assert (record.kwargs, record.tags, record.bid) == ({"colour": "blue"}, ["vip"], "b1")
    assert (record.queue, record.position) == ("low", 3)


def test_a_minimal_job_has_neither_caller_nor_context_nor_age():
    record = JobRecord(b'{"class":"X","args":[],"tags":null,"error_class":7,"meta.caller_id":[]}')
    assert (record.caller, record.context["meta.caller_id"], record.tags, record.error_class) == (None, [], [], "")
    assert (record.retry_count, record.latency_seconds, record.bid) == (None, 0, "")


@pytest.mark.parametrize(
    "key, ago, waited", [("enqueued_at", 60, 60), ("created_at", 60, 60), ("enqueued_at", -900, 0)]
)
def test_the_latency_counts_from_enqueueing_or_else_from_creation(key, ago, waited):
    record = JobRecord(json.dumps({"class": "X", "args": [], key: time.time() - ago}).encode())
    assert record.latency_seconds == pytest.approx(waited, abs=30)


@pytest.mark.parametrize("raw", [b"\xff no job", b'{"class":"X","args":[1]}'])
def test_a_job_without_an_id_is_identified_by_a_digest(raw):
    assert JobRecord(raw).key_part == JobRecord(raw).key_part != JobRecord(raw + b" ").key_part
    assert len(JobRecord(raw).key_part) == 12


def test_a_huge_id_is_not_used_as_a_key():
    record = JobRecord(b'{"class":"X","args":[],"jid":"%s"}' % (b"x" * 201))
    assert len(record.key_part) == 12


@pytest.mark.parametrize("count, expected", [(0, 0), (10**9, 10**9), (-1, None), (10**9 + 1, None), (10**400, None)])
def test_a_count_of_retries_is_one_that_can_be(count, expected):
    assert JobRecord(json.dumps({"class": "X", "args": [], "retry_count": count}).encode()).retry_count == expected


def test_compressed_arguments_are_shown_plain():
    record = JobRecord(encode(compress({"class": "HardJob", "args": [1, "é"], "kwargs": {"a": 2}, "jid": JID})))
    assert (record.args, record.display_args, record.kwargs) == ([1, "é"], [1, "é"], {"a": 2})
    assert not record.malformed
    assert record["compressed"] is True


def test_compressed_arguments_that_cannot_be_read_are_shown_as_they_are_stored():
    packed = {"class": "HardJob", "args": ["no base64!"], "compressed": True, "original_job_size_bytes": 9}
    record = JobRecord(encode(packed))
    assert (record.args, record.kwargs) == (["no base64!"], {})


def test_large_compressed_arguments_are_not_kept_in_memory_and_not_for_lists():
    record = JobRecord(encode(compress({"class": "HardJob", "args": ["x" * 300_000], "jid": JID})))
    assert record.args == ["x" * 300_000]
    assert record.args is not record.args
    assert record.unlisted_bytes == 300_004
    small = JobRecord(encode(compress({"class": "HardJob", "args": ["x" * 200_000]})))
    assert small.unlisted_bytes == 0


@pytest.mark.parametrize("size", [-1, "300004", 1e6, True, None])
def test_a_crafted_size_of_compressed_arguments_is_ignored(size):
    packed = {"class": "HardJob", "args": ["eJw="], "compressed": True, "original_job_size_bytes": size}
    assert JobRecord(json.dumps(packed).encode()).unlisted_bytes == 0
