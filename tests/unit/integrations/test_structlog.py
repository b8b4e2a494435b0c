"""The processor that adds the job's fields to structlog events. Real workers use the recipe in `test_secrets`."""

from __future__ import annotations

import logging

from offsider.integrations.logging import job_fields
from offsider.runtime.context import JobContext, running
from offsider.runtime.propagation import context


def job():
    payload = {"class": "Hard", "args": ["secret"], "jid": "ab", "tags": ["x", "y"], "meta.user": "ann"}
    return JobContext(payload, "low", log={"rows": 7})


ABOUT = {
    "class": "Hard",
    "jid": "ab",
    "queue": "low",
    "tags": ["x", "y"],
    "correlation_id": "ab",
    "meta.user": "ann",
    "rows": 7,
}


def test_an_event_inside_a_job_names_the_job():
    with running(job()):
        assert job_fields(None, "info", {"event": "hello", "rows": 8}) == {"event": "hello", **ABOUT, "rows": 8}


def test_an_event_outside_jobs_has_the_fields_of_the_open_block():
    assert job_fields(None, "info", {"event": "hello"}) == {"event": "hello"}
    with context(user="ann", correlation_id="c1"):
        assert job_fields(None, "info", {}) == {"meta.user": "ann", "correlation_id": "c1"}


def event_of(**fields):
    record = logging.LogRecord("offsider", logging.INFO, "", 0, "done", (), None)
    record.fields = fields
    found = job_fields(None, "info", {"event": "done", "_record": record})
    assert found.pop("_record") is record
    return found


def test_our_own_lines_keep_their_fields():
    assert event_of(job_status="done") == {"event": "done", "job_status": "done"}
