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


def ended(config, outcome, duration_seconds, **fields):
    """Run a job that ends like this, and answer what the run brought."""
    return JobLogger(config).around(job(**fields), lambda _job: (outcome, duration_seconds))


def job(**fields):
    return JobContext({"class": "J", "args": [], "jid": "a" * 24, **fields}, "default")


def test_a_job_starts_at_info(config, lines):
    told_before = []

    def run(_job):
        told_before.extend(lines())
        return Succeeded(), 0.0

    JobLogger(config).around(job(), run)

    assert told_before == [("INFO", "start", {})]


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
    assert ended(config, outcome, 1.23456) == (outcome, 1.23456)

    assert lines() == [("INFO", "start", {}), ("INFO", word, {"elapsed": 1.235})]


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
    ended(config, outcome, 0.5)

    assert lines()[1:] == [("INFO", "done", {"elapsed": 0.5} | field)]


def test_a_rescheduled_job_says_when_it_comes_again(config, lines):
    ended(config, Rescheduled(90), 0.5)

    assert lines()[1:] == [("INFO", "done", {"elapsed": 0.5, "again_in": 90})]


def test_the_job_log_can_be_switched_off_and_the_jobs_own_lines_stay(config, lines):
    config.log.job_log = False
    job_logger = JobLogger(config)

    def run(_job):
        logger.info("the job's own")
        return Failed(ValueError("boom")), 1.0

    job_logger.around(job(), run)

    assert lines() == [("INFO", "the job's own", {})]


@pytest.mark.parametrize(
    "settings, fields, wanted",
    [
        ((True, logging.INFO), {}, True),
        ((True, logging.WARNING), {}, False),
        ((False, logging.INFO), {}, False),
        ((False, logging.WARNING), {"log_level": "debug"}, True),
    ],
)
def test_a_run_that_is_not_logged_needs_nothing_around_it(settings, fields, wanted, config, caplog):
    config.log.job_log, level = settings
    caplog.set_level(level, logger="offsider")

    assert JobLogger(config).wants(job(**fields)) is wanted


@pytest.mark.parametrize(
    "level, shown", [("warning", []), ("debug", ["start", "chatter", "done"]), (None, ["start", "done"])]
)
def test_the_level_of_a_job_holds_for_its_own_run_alone(level, shown, config, caplog):
    caplog.set_level(logging.INFO, logger="offsider")
    caplog.handler.setLevel(0)

    def run(_job):
        logger.debug("chatter")
        return Succeeded(), 0.0

    JobLogger(config).around(job(log_level=level), run)

    assert [line.getMessage() for line in caplog.records] == shown
    logger.debug("after")
    logger.info("after, too")
    assert [line.getMessage() for line in caplog.records] == [*shown, "after, too"]


def test_it_goes_back_also_when_the_run_breaks(config):
    def break_off(_job):
        assert not logger.isEnabledFor(logging.WARNING)
        raise LookupError

    with pytest.raises(LookupError):
        JobLogger(config).around(job(log_level="error"), break_off)
    assert logger.isEnabledFor(logging.WARNING)


def test_a_log_that_is_broken_is_reported_and_no_fault_of_the_job(config, reports, caplog):
    """Else a job that has run would run again: its outcome could not be written."""
    caplog.set_level(logging.INFO, logger="offsider")

    def broken(record):
        if record.getMessage() in {"start", "done"}:
            raise LookupError("a broken filter")
        return True

    logger.addFilter(broken)
    try:
        assert ended(config, Succeeded(), 1.0) == (Succeeded(), 1.0)
    finally:
        logger.removeFilter(broken)

    assert [(type(error), context) for error, context in reports] == [(LookupError, {"context": "the job log"})] * 2
