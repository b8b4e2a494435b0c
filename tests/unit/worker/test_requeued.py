"""Each requeued job is named in the log, up to a number."""

from __future__ import annotations

import logging

import pytest

from offsider.core.payload import encode
from offsider.worker.requeued import MAX_LINES, RequeueLog


def payload(number: int = 1) -> bytes:
    return encode({"class": "Hard", "args": ["secret"], "jid": f"{number:024x}", "queue": "retried"})


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "offsider")
    return caplog


def test_a_line_names_the_job_and_no_arguments(log):
    RequeueLog("host:2:d is dead").add(payload(), "low")
    (record,) = log.records
    assert record.getMessage() == f"requeued Hard JID-{1:024x} to queue low: host:2:d is dead"
    assert record.levelno == logging.WARNING
    assert record.fields == {"class": "Hard", "jid": f"{1:024x}", "queue": "low", "correlation_id": f"{1:024x}"}


def test_invalid_bytes_are_named_by_their_queue(log):
    RequeueLog("a test", logging.INFO).add(b"secret", "low")
    (record,) = log.records
    assert record.getMessage() == "requeued malformed payload to queue low: a test"
    assert (record.levelno, record.fields) == (logging.INFO, {"queue": "low"})


def test_ten_thousand_jobs_are_not_ten_thousand_lines(log):
    requeued = RequeueLog("a test")
    for number in range(10_000):
        requeued.add(payload(number), "low")
    assert requeued.count == 10_000
    assert len(log.records) == MAX_LINES + 1
    assert log.records[-1].getMessage() == "requeued more jobs, not logged individually: a test"
