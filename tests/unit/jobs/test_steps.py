"""Steps outside of a worker, and their errors."""

from __future__ import annotations

import asyncio
import time
from contextvars import Context
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from offsider import (
    InvalidArguments,
    InvalidJob,
    InvalidOptions,
    JobContext,
    NoCurrentJob,
    astep,
    current_job,
    job,
    signal,
    sleep_until,
    step,
    wait_for,
)
from offsider.core.errors import Waiting
from offsider.runtime.context import running


@pytest.fixture(autouse=True)
def _run(config):
    with running(JobContext({"class": "Fulfil", "jid": "1", "args": []}, "default")):
        yield


def double(number: Any) -> Any:
    return 2 * number


def test_a_step_returns_what_its_function_returns_and_has_a_key():
    assert step("double", double, 21) == 42
    assert step("key", lambda: step.key) == "1:key"
    with pytest.raises(NoCurrentJob, match="no step is running"):
        _ = step.key


def test_a_step_of_a_coroutine():
    async def adouble(number: int) -> tuple[int, str]:
        await asyncio.sleep(0)
        return 2 * number, step.key

    assert asyncio.run(astep("double", adouble, 21)) == [42, "1:double"]  # as JSON returns it in later runs


def test_an_error_of_a_step_is_that_of_the_job():
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        step("fails", fail)


@pytest.mark.parametrize("result", [object(), {1: 2}, float("nan"), "x" * 300_000])
def test_a_result_must_be_json(result):
    with pytest.raises(InvalidArguments, match="Fulfil: JSON cannot store the result of the step 'a'"):
        step("a", lambda: result)


def test_a_name_belongs_to_one_step_of_a_run():
    step("a", double, 1)
    with pytest.raises(InvalidJob, match="this run has had the step 'a'; add a number"):
        step("a", double, 1)


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", 5])
def test_a_name_is_a_short_text(name):
    with pytest.raises(InvalidJob, match="the name of a step is a text of 1 to 200 letters"):
        step(name, double, 1)


@pytest.mark.parametrize("when", [60, datetime(2026, 1, 1), float("nan")])  # noqa: DTZ001
def test_what_is_no_time_to_sleep_until(when):
    with pytest.raises(InvalidOptions):
        sleep_until(when)


def test_a_time_that_has_come_is_no_sleep_and_another_one_ends_the_run():
    sleep_until(datetime.now(UTC) - timedelta(seconds=1))
    sleep_until(1_000_000_000.0)
    with pytest.raises(Waiting) as raised:
        sleep_until(datetime.now(UTC) + timedelta(hours=1))
    assert 3590 < raised.value.seconds <= 3600
    assert not isinstance(raised.value, Exception)  # a job that handles errors around a wait does not catch it


def test_no_run_sleeps_while_a_step_runs():
    with pytest.raises(InvalidJob, match="a wait while the step 'sleeps' runs; wait after it"):
        step("sleeps", sleep_until, time.time() + 60)


def test_only_a_job_sleeps():
    with pytest.raises(NoCurrentJob):
        Context().run(sleep_until, time.time() + 60)


def test_no_signal_comes_without_a_worker():
    with pytest.raises(InvalidJob, match="no worker runs this job, so the signal 'paid' cannot come"):
        wait_for("paid", timeout=60)
    with pytest.raises(ValueError, match="timeout of wait_for"):
        wait_for("due", timeout=0)


def test_a_signal_is_json():
    with pytest.raises(InvalidArguments, match="signal 'paid': JSON cannot store its value"):
        signal("1", "paid", object())


def test_the_steps_of_a_job_that_runs_inline():
    @job(name="unit.steps")
    def steps() -> list[int]:
        return [step(f"double-{number}", double, number) for number in range(3)]

    assert steps.run_inline() == [0, 2, 4]
    assert current_job().steps is None
