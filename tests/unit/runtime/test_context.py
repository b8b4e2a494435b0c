"""The running job as middleware sees it, and which one is current."""

from __future__ import annotations

import asyncio
import contextvars
import time

import pytest

from offsider.core.errors import InvalidOptions, NoCurrentJob
from offsider.runtime.context import (
    JobContext,
    current_job,
    current_job_or_none,
    running,
)
from offsider.storage.working import Owner, PrivateListEntry


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


def test_the_context_has_the_private_list_if_any_and_the_worker():
    owner = Owner("host:1:abc", "default")
    payload = {"class": "X", "args": []}
    claimed = JobContext(payload, "q", b"raw", owner=owner)
    assert (claimed.entry, claimed.process) == (PrivateListEntry(owner, "q", b"raw"), "host:1:abc")
    popped = JobContext(payload, "q", b"raw", alone_in="host:2:abc")
    assert (popped.entry, popped.process) == (None, "host:2:abc")
    assert (job().entry, job().process) == (None, "")


def test_stopping_asks_the_worker_each_time():
    answers = iter([False, True])
    context = JobContext({"class": "X", "args": []}, "q", is_stopping=lambda: next(answers))
    assert [context.stopping, context.stopping] == [False, True]


def test_the_time_that_is_left_counts_down_to_nothing(monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 7.0)
    monkeypatch.setattr(time, "time", lambda: 1e9)
    limited = job()
    assert (limited.deadline, limited.time_left_seconds) == (None, None)
    limited.ends_at = 107.0
    assert (limited.deadline, limited.time_left_seconds) == (1e9 + 100, 100)
    limited.ends_at = 2.0
    assert limited.time_left_seconds == 0


def test_outside_a_job_there_is_no_context():
    assert current_job_or_none() is None
    with pytest.raises(NoCurrentJob, match="only in a job"):
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


# ------------------------------------------------------------------------------------------------------- measuring


@pytest.fixture
def passing(monkeypatch):
    """A clock that advances by one second at each reading."""
    ticks = iter(range(1000))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(ticks)))


def test_blocks_of_one_name_add_up_and_nested_or_failed_ones_count_once(passing):
    run = job()
    assert run.measured_seconds == {}
    for _ in range(3):
        with run.measure("db"):
            pass
    assert run.measured_seconds == {"db": 3.0}
    with run.measure("db"), run.measure("redis"), run.measure("db"):
        pass
    assert run.measured_seconds == {"db": 6.0, "redis": 1.0}
    with pytest.raises(ZeroDivisionError), run.measure("db"):
        raise ZeroDivisionError
    assert run.measured_seconds == {"db": 7.0, "redis": 1.0}


def test_a_job_that_runs_inside_of_another_measures_for_itself(passing):
    outer, inner = job(), job(jid="cd")
    with outer.measure("db"), inner.measure("db"):
        pass
    assert inner.measured_seconds == {"db": 1.0}
    assert outer.measured_seconds == {"db": 3.0}


def test_a_context_that_outlives_its_block_measures_separately(passing):
    run = job()

    def measure():
        with run.measure("db"):
            pass

    with run.measure("db"):
        copied = contextvars.copy_context()
    copied.run(measure)
    assert run.measured_seconds == {"db": 2.0}


def test_coroutines_side_by_side_add_up(passing):
    run = job()

    async def query(begun, go):
        with run.measure("db"):
            begun.release()
            await go.wait()

    async def both():
        go, begun = asyncio.Event(), asyncio.Semaphore(0)
        tasks = [asyncio.create_task(query(begun, go)) for _ in range(2)]
        for _ in tasks:
            await begun.acquire()
        go.set()
        await asyncio.gather(*tasks)

    asyncio.run(both())
    assert run.measured_seconds == {"db": 4.0}, "from 0 to 2 and from 1 to 3"


@pytest.mark.parametrize("name", ["", "Db", "my-db", "1db", "d.b", "x" * 41])
def test_an_invalid_field_name_is_refused(name):
    with pytest.raises(InvalidOptions, match=r"measure: .* is not a valid name"), job().measure(name):
        pass


def test_names_without_end_are_refused(passing):
    run = job()
    for number in range(50):
        with run.measure(f"query_{number}"):
            pass
    with run.measure("query_7"):
        pass
    with pytest.raises(InvalidOptions, match=r"at most 50 names; put variable data into job\.log"), run.measure("more"):
        pass


def test_wrappers_run_around_the_coroutine_of_a_job_and_the_last_one_is_the_innermost():
    seen = []

    def wrapper(name):
        async def around(coroutine):
            seen.append(name)
            result = await coroutine
            seen.append(name)
            return result

        return around

    async def perform():
        seen.append("job")
        return 7

    run = job()
    run.wrap_coroutine(wrapper("outer"))
    run.wrap_coroutine(wrapper("inner"))
    assert asyncio.run(run.wrapped(perform())) == 7
    assert seen == ["outer", "inner", "job", "inner", "outer"]
