"""The two lines of the job log: content, level, and how to silence them."""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from offsider.core.errors import Discard
from offsider.core.outcome import Discarded, Failed, Interrupted, NotStarted, Rescheduled, Skipped, Succeeded
from offsider.logs.setup import logger
from offsider.runtime.context import JobContext
from offsider.runtime.middleware import MiddlewareChain
from offsider.worker.run import job_logger as module
from offsider.worker.run.job_logger import JobLogger


@pytest.fixture
def lines(caplog):
    """The lines of the log: level, message and fields."""
    caplog.set_level(logging.INFO, logger="offsider")
    return lambda: [(line.levelname, line.getMessage(), getattr(line, "fields", {})) for line in caplog.records]


def around(job_logger, job, run):
    """Run a job inside the job log; ``run`` returns the outcome and the duration."""
    now = [0.0]

    def innermost(job):
        outcome, seconds = run(job)
        now[0] += seconds
        return outcome

    clock = SimpleNamespace(perf_counter=lambda: now[0], thread_time=time.thread_time)
    with patch.object(module, "time", clock):
        return MiddlewareChain([job_logger]).run(job, innermost)


def ended(config, outcome, duration_seconds, **fields):
    """Log the run of a job that ends like this."""
    return around(JobLogger(config), job(**fields), lambda _job: (outcome, duration_seconds))


def job(**fields):
    return JobContext({"class": "J", "args": [], "jid": "a" * 24, **fields}, "default")


def test_a_job_starts_at_info(config, lines):
    told_before = []

    def run(_job):
        told_before.extend(lines())
        return Succeeded(), 0.0

    around(JobLogger(config), job(), run)

    assert told_before == [("INFO", "start", {})]


@pytest.mark.parametrize(
    "outcome, word, details",
    [
        (Succeeded(), "done", {}),
        (Failed(ValueError("boom")), "fail", {}),
        (Interrupted(), "fail", {}),
        (Skipped("nothing"), "done", {"skipped": "nothing"}),
        (Skipped(""), "done", {"skipped": True}),
        (Discarded(Discard("no way")), "done", {"discarded": "no way"}),
        (Discarded(Discard()), "done", {"discarded": True}),
        (Rescheduled(90), "done", {"again_in": 90}),
        (Rescheduled(90, "the bank is closed"), "done", {"again_in": 90, "rescheduled": "the bank is closed"}),
    ],
    ids=str,
)
def test_the_end_line_has_the_duration_and_how_the_run_ended(outcome, word, details, config, lines):
    assert ended(config, outcome, 1.23456) == outcome
    assert lines() == [("INFO", "start", {}), ("INFO", word, {"elapsed": 1.235} | details)]
    config.log.format = "json"
    assert ended(config, outcome, 1.23456) == outcome
    assert lines()[-1][2].items() >= ({"job_status": word, "outcome": outcome.name} | details).items()


def test_the_job_log_can_be_switched_off_and_the_jobs_own_lines_stay(config, lines):
    config.log.job_log = False
    job_logger = JobLogger(config)

    def run(_job):
        logger.info("the job's own")
        return Failed(ValueError("boom")), 1.0

    around(job_logger, job(), run)

    assert lines() == [("INFO", "the job's own", {})]


def test_a_broken_log_is_reported_and_does_not_fail_the_job(config, reports, caplog):
    """Else a job that has run would run again: its outcome could not be written."""
    caplog.set_level(logging.INFO, logger="offsider")

    def broken(record):
        if record.getMessage() in {"start", "done"}:
            raise LookupError("a broken filter")
        return True

    logger.addFilter(broken)
    try:
        assert ended(config, Succeeded(), 1.0) == Succeeded()
    finally:
        logger.removeFilter(broken)

    assert [(type(error), context) for error, context in reports] == [
        (LookupError, {"context": "writing the job log"})
    ] * 2


def test_measured_times_are_on_the_end_line_of_a_run(config, lines):
    def run(job):
        with job.measure("db"):
            pass
        return Succeeded(), 0.5

    around(JobLogger(config), job(), run)

    assert [sorted(fields) for _, _, fields in lines()] == [[], ["db_duration_s", "elapsed"]]


# ----------------------------------------------------------------------------------------------------- structured

NOW = 1_795_216_781.0


@pytest.fixture
def structured(config, clock):
    config.log.format = "json"
    clock.seconds = NOW
    return config


PUSHED = {"retry": 5, "created_at": 1_795_216_770_500, "enqueued_at": 1_795_216_780_500}
FACTS = {
    "retry": 5,
    "attempt": 1,
    "job_size_bytes": 121,
    "created_at": "2026-11-20T23:19:30.500Z",
    "enqueued_at": "2026-11-20T23:19:40.500Z",
    "scheduling_latency_s": 0.5,
}


def test_a_structured_start_line_has_the_fields_known_before_the_run(structured, lines):
    ended(structured, Succeeded(), 0.0, **PUSHED)

    level, message, fields = lines()[0]
    assert (level, message) == ("INFO", f"J JID-{'a' * 24}: start")
    assert fields == {"job_status": "start", **FACTS}


def test_the_lines_of_an_active_job_name_the_class_that_it_wraps(structured, lines):
    ended(structured, Succeeded(), 0.0, wrapped="MailJob")
    assert [message for _, message, _ in lines()] == [
        f"MailJob JID-{'a' * 24}: start",
        f"MailJob JID-{'a' * 24}: done: 0.000 sec",
    ]


def test_a_structured_end_line_has_all_timings(structured, lines):
    def run(job):
        with job.measure("db"):
            pass
        return Succeeded(), 1.23456789

    around(JobLogger(structured), job(**PUSHED), run)

    _, message, fields = lines()[1]
    assert message == f"J JID-{'a' * 24}: done: 1.235 sec"
    assert 0 <= fields.pop("cpu_s") < 5
    assert 0 <= fields.pop("db_duration_s") < 5
    assert fields == {
        "job_status": "done",
        **FACTS,
        "outcome": "succeeded",
        "duration_s": 1.234568,
        "completed_at": "2026-11-20T23:19:41.000Z",
    }


def test_a_structured_failure_line_has_the_error(structured, lines):
    def fail():
        raise ValueError("boom")

    try:
        fail()
    except ValueError as error:
        ended(structured, Failed(error), 0.5, retry_count=0, interrupted_count=2)

    _, message, fields = lines()[1]
    assert message.endswith(": fail: 0.500 sec")
    assert (fields["job_status"], fields["outcome"]) == ("fail", "failed")
    assert (fields["error_class"], fields["error_message"]) == ("ValueError", "boom")
    assert fields["error_backtrace"][0].endswith("in `fail'")
    assert (fields["retry_count"], fields["attempt"], fields["interrupted_count"]) == (0, 2, 2)


def test_a_clock_that_is_behind_makes_no_negative_latency(structured, lines):
    ended(structured, Succeeded(), 0.5, enqueued_at=NOW + 5)

    assert lines()[0][2]["scheduling_latency_s"] == 0


def test_arguments_are_logged_only_if_enabled(structured, lines):
    ended(structured, Succeeded(), 0.5)
    structured.log.arguments = True
    ended(structured, Succeeded(), 0.5)

    assert [fields.get("args") for _, _, fields in lines()] == [None, None, "[]", "[]"]


@pytest.mark.parametrize(
    "outcome, reported",
    [
        (NotStarted("schedule", 4.56789, "why", "stranded", b"{}"), {"again_in": 4.568, "stranded": "why"}),
        (
            NotStarted("schedule", 60.0, "deferred by a control", "deferred"),
            {"again_in": 60.0, "deferred": "deferred by a control"},
        ),
        (
            NotStarted("quarantine", reason="dropped by a control", name="dropped"),
            {"dropped": "dropped by a control", "kept": True},
        ),
        (NotStarted("elsewhere", reason="parked", name="moved"), {"moved": "parked"}),
    ],
)
def test_a_job_that_does_not_start_has_one_line_with_the_reason(outcome, reported, config, lines):
    JobLogger(config).instead_of_a_run(job(), outcome)
    assert lines() == [("INFO", outcome.name, reported)]


@pytest.mark.usefixtures("lines")
def test_an_error_while_logging_it_is_reported(structured, reports, monkeypatch):
    def broken(*_: object) -> None:
        raise OSError("no disk")

    monkeypatch.setattr("offsider.worker.run.job_logger.write_enabled", broken)
    JobLogger(structured).instead_of_a_run(job(), NotStarted("gone", reason="why", name="dropped"))
    assert reports[0][1] == {"context": "writing the job log"}


def test_a_job_that_waits_for_another_worker_is_logged_when_it_begins_to_wait(config, lines):
    for is_first in (True, False, False):
        JobLogger(config).instead_of_a_run(job(), NotStarted("schedule", 5.0, "not declared here", is_logged=is_first))
    assert len(lines()) == 1


def test_the_level_of_the_job_applies_to_this_line_too(config, lines):
    JobLogger(config).instead_of_a_run(job(log_level="error"), NotStarted("quarantine", reason="why", name="dropped"))
    assert lines() == []
    config.log.job_log = False
    JobLogger(config).instead_of_a_run(job(), NotStarted("quarantine", reason="why", name="dropped"))
    assert lines() == []
