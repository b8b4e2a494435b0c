"""The running job as middleware sees it, and which one is current."""

from __future__ import annotations

import contextvars
import time

import pytest

from offsider.core.errors import NoCurrentJob
from offsider.wiring.config import Config
from offsider.wiring.context import (
    JobContext,
    current_capsule,
    current_job,
    current_job_or_none,
    in_capsule,
    running,
)


def job(**payload):
    return JobContext({"class": "Hard", "args": [1], "jid": "ab", **payload}, "default")


def test_a_job_in_its_first_run():
    first = job()
    assert (first.jid, first.name, list(first.args), first.kwargs) == ("ab", "Hard", [1], {})
    assert (first.retry_count, first.attempt, first.interrupted_count, list(first.tags)) == (None, 1, 0, [])
    assert first.stopping is False


def test_attempts_count_runs_and_not_interruptions():
    assert job(retry_count=0).attempt == 2
    assert job(retry_count=3, interrupted_count=7).attempt == 5
    assert job(interrupted_count=7).interrupted_count == 7


def test_a_foreign_payload_without_jid_has_an_empty_one():
    assert JobContext({"class": "X", "args": []}, "q").jid == ""


def test_stopping_asks_the_worker_each_time():
    answers = iter([False, True])
    context = JobContext({"class": "X", "args": []}, "q", is_stopping=lambda: next(answers))
    assert [context.stopping, context.stopping] == [False, True]


def test_the_time_that_is_left_counts_down_to_nothing():
    limited = job()
    assert (limited.deadline, limited.time_left_seconds) == (None, None)
    limited.ends_at = time.monotonic() + 100
    assert 99 < limited.time_left_seconds <= 100
    assert abs(limited.deadline - time.time() - 100) < 1
    limited.ends_at = time.monotonic() - 5
    assert limited.time_left_seconds == 0


def test_outside_of_a_job_there_is_none():
    assert current_job_or_none() is None
    with pytest.raises(NoCurrentJob, match="inside a job"):
        current_job()


def fail_in(expected):
    assert current_job() is expected
    raise ZeroDivisionError


def test_jobs_nest_and_end_also_with_an_error():
    outer, inner = job(), job(jid="cd")
    with running(outer):
        with pytest.raises(ZeroDivisionError), running(inner):
            fail_in(inner)
        assert current_job() is outer
    assert current_job_or_none() is None


def test_another_context_has_its_own_job():
    with running(job()):
        assert contextvars.Context().run(current_job_or_none) is None


def test_the_capsule_of_a_worker_thread():
    capsule = Config().capsules["default"]
    assert current_capsule() is None
    with in_capsule(capsule):
        assert current_capsule() is capsule
    assert current_capsule() is None
