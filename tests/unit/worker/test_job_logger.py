"""The two lines of the job log: what they say, at which level, and how they are silenced."""

from __future__ import annotations

import logging

import pytest

from offsider.core.errors import Discard, MalformedPayload
from offsider.wiring.context import JobContext
from offsider.wiring.logs import logger
from offsider.worker.job_logger import JobLogger
from offsider.worker.outcome import (
    Discarded,
    Failed,
    Interrupted,
    Malformed,
    Rescheduled,
    Skipped,
    Succeeded,
)


@pytest.fixture
def lines(caplog):
    """The lines of the log: level, message and fields."""
    caplog.set_level(logging.INFO, logger="offsider")
    return lambda: [(line.levelname, line.getMessage(), getattr(line, "fields", {})) for line in caplog.records]


def job(**fields):
    return JobContext({"class": "J", "args": [], "jid": "a" * 24, **fields}, "default")


def test_a_job_starts_at_info(config, lines):
    with JobLogger(config).around(job()):
        assert lines() == [("INFO", "start", {})]
    assert lines() == [("INFO", "start", {})]


@pytest.mark.parametrize(
    "outcome, word",
    [
        (Succeeded(), "done"),
        (Failed(ValueError("boom")), "fail"),
        (Interrupted(), "fail"),
        (Malformed(MalformedPayload(b"", "empty")), "done"),
    ],
)
def test_how_a_job_ended_and_how_long_it_took(outcome, word, config, lines):
    JobLogger(config).ended(outcome, 1.23456)

    assert lines() == [("INFO", word, {"elapsed": 1.235})]


@pytest.mark.parametrize(
    "outcome, field",
    [
        (Skipped("nothing"), {"skipped": "nothing"}),
        (Skipped(""), {"skipped": True}),
        (Discarded(Discard("no way")), {"discarded": "no way"}),
        (Discarded(Discard()), {"discarded": True}),
    ],
)
def test_a_job_that_ended_itself_says_how_and_why(outcome, field, config, lines):
    JobLogger(config).ended(outcome, 0.5)

    assert lines() == [("INFO", "done", {"elapsed": 0.5} | field)]


def test_a_rescheduled_job_says_when_it_comes_again(config, lines):
    JobLogger(config).ended(Rescheduled(90), 0.5)

    assert lines() == [("INFO", "done", {"elapsed": 0.5, "again_in": 90})]


def test_the_job_log_can_be_switched_off_and_the_jobs_own_lines_stay(config, lines):
    config.log.job_log = False
    job_logger = JobLogger(config)

    with job_logger.around(job()):
        logger.info("the job's own")
    job_logger.ended(Failed(ValueError("boom")), 1.0)

    assert lines() == [("INFO", "the job's own", {})]


@pytest.mark.parametrize("level, shown", [("warning", []), ("debug", ["start", "chatter"]), (None, ["start"])])
def test_the_level_of_a_job_holds_for_its_own_run_alone(level, shown, config, caplog):
    caplog.set_level(logging.INFO, logger="offsider")
    caplog.handler.setLevel(0)

    with JobLogger(config).around(job(log_level=level)):
        logger.debug("chatter")

    assert [line.getMessage() for line in caplog.records] == shown
    logger.debug("after")
    logger.info("after, too")
    assert [line.getMessage() for line in caplog.records] == [*shown, "after, too"]


def test_it_goes_back_also_when_the_run_breaks(config):
    def break_off():
        with JobLogger(config).around(job(log_level="error")):
            assert not logger.isEnabledFor(logging.WARNING)
            raise LookupError

    with pytest.raises(LookupError):
        break_off()
    assert logger.isEnabledFor(logging.WARNING)


def test_a_log_that_is_broken_is_reported_and_no_fault_of_the_job(config, reports, caplog):
    """Else a job that has run would run again: its outcome could not be written."""
    caplog.set_level(logging.INFO, logger="offsider")

    def broken(record):
        if record.getMessage() in {"start", "done"}:
            raise LookupError("a broken filter")
        return True

    ran = []
    logger.addFilter(broken)
    try:
        with JobLogger(config).around(job()):
            ran.append(1)
        JobLogger(config).ended(Succeeded(), 1.0)
    finally:
        logger.removeFilter(broken)

    assert ran == [1]
    assert [(type(error), context) for error, context in reports] == [(LookupError, {"context": "the job log"})] * 2
