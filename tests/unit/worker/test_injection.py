"""An error of a time limit is raised inside a job, thread or coroutine, and we are notified."""

from __future__ import annotations

import asyncio
import pickle
import threading
import time
from contextlib import suppress

import pytest

from offsider.core.error_text import class_of
from offsider.core.errors import HardTimeout, Shutdown, SoftTimeout
from offsider.worker.run.async_runner import AsyncRunner
from offsider.worker.run.injection import Injection
from offsider.worker.run.interrupt import Window
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("untraced")


class Job:
    """A job in a thread of its own, inside a window."""

    def __init__(self, perform) -> None:
        self.window = Window()
        self.runner = AsyncRunner("loop-of-the-test")
        self.reach = Injection(self.window, self.runner)
        self.landed = threading.Event()
        self.result: object = None
        self._perform = perform
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        wait_for(lambda: self.window.thread_id is not None)

    def _run(self) -> None:
        try:
            with self.window:
                result = self._perform()
                self.result = self.runner.run(result, limited=True) if asyncio.iscoroutine(result) else result
        except BaseException as error:
            self.result = error

    def aim(self, kind=SoftTimeout) -> bool:
        return self.reach.aim(kind, "time is up", self.landed.set)

    def ended(self) -> object:
        self.thread.join(10)
        assert not self.thread.is_alive()
        self.runner.stop()
        return self.result


def loop() -> None:
    while True:
        pass


def waits_in_a_call(until: threading.Event):
    def wait() -> str:
        until.wait(10)
        return "done"

    return wait


@pytest.mark.interrupts
@pytest.mark.parametrize("kind", [SoftTimeout, HardTimeout])
def test_a_thread_gets_an_error_that_is_like_any_other(kind):
    job = Job(loop)
    assert job.aim(kind)
    error = job.ended()
    assert isinstance(error, kind)
    assert str(error) == "time is up"
    assert class_of(error) == f"offsider.core.errors.{kind.__name__}"
    assert type(pickle.loads(pickle.dumps(error))) is kind
    assert job.landed.is_set()


@pytest.mark.interrupts
def test_in_a_thread_that_waits_in_a_call_it_has_not_landed():
    until = threading.Event()
    job = Job(waits_in_a_call(until))
    assert job.aim()
    assert not job.landed.wait(0.05)
    assert "threading.py" in job.reach.place()
    until.set()
    assert job.ended() == "done" or job.landed.is_set()


@pytest.mark.interrupts
@pytest.mark.parametrize("swallow", [Exception, SoftTimeout, BaseException])
def test_a_job_that_swallows_the_error_still_counts_as_reached(swallow):
    def swallows() -> str:
        with suppress(swallow):
            loop()
        return "went on"

    job = Job(swallows)
    assert job.aim()
    assert job.ended() == "went on"
    assert job.landed.is_set()


def test_outside_a_job_there_is_nothing_to_interrupt():
    reach = Injection(Window(), AsyncRunner("none"))
    assert not reach.aim(SoftTimeout, "late", lambda: None)
    assert reach.place() == ""


def waiting_coroutine(caught, how):
    async def waits() -> str:
        try:
            await how()
        except SoftTimeout as error:
            caught.append(error)
            await asyncio.sleep(0)  # the following code is not cancelled
            return "cleaned up"
        return "ended"

    return waits


async def in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(inner_task())


async def inner_task() -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        CANCELLED.append(1)
        raise


CANCELLED: list[int] = []


@pytest.mark.parametrize(
    "how, cancelled",
    [
        (lambda: asyncio.Event().wait(), 0),
        (lambda: asyncio.wait_for(inner_task(), 60), 1),
        (lambda: asyncio.gather(inner_task(), inner_task()), 2),
        (in_a_group, 1),
    ],
)
def test_a_coroutine_gets_it_at_its_await_and_all_below_is_cancelled(how, cancelled):
    CANCELLED.clear()
    caught: list[SoftTimeout] = []
    job = Job(waiting_coroutine(caught, how))
    wait_for(job.runner.tasks)
    assert job.aim()
    assert job.ended() == "cleaned up"
    [error] = caught
    assert str(error) == "time is up"
    assert isinstance(error, asyncio.CancelledError)
    assert job.landed.is_set()
    wait_for(lambda: len(CANCELLED) == cancelled)


@pytest.mark.parametrize("kind", [SoftTimeout, HardTimeout])
def test_a_coroutine_that_lets_it_through_has_failed_with_it(kind):
    async def waits() -> None:
        await asyncio.Event().wait()

    job = Job(waits)
    wait_for(job.runner.tasks)
    job.aim(kind)
    error = job.ended()
    assert isinstance(error, kind)
    assert class_of(error) == f"offsider.core.errors.{kind.__name__}"


def test_a_second_limit_reaches_a_coroutine_that_swallowed_the_first():
    async def stubborn() -> None:
        with suppress(SoftTimeout):
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    job = Job(stubborn)
    wait_for(job.runner.tasks)
    job.aim()
    assert job.landed.wait(10)
    job.aim(HardTimeout)
    assert isinstance(job.ended(), HardTimeout)


def test_a_simultaneous_stop_wins():
    busy, go = threading.Event(), threading.Event()

    async def blocks() -> None:
        busy.set()
        go.wait(10)
        await asyncio.Event().wait()

    job = Job(blocks)
    assert busy.wait(10)
    assert job.aim()
    assert job.runner.cancel(job.thread.ident)
    assert "threading.py" in job.reach.place()  # where the loop hangs
    go.set()
    assert isinstance(job.ended(), Shutdown)
    assert not job.landed.is_set()


def test_a_limit_before_the_first_step_of_a_coroutine():
    """The loop is busy while the limit passes: the coroutine waits for its first step."""
    busy, go = threading.Event(), threading.Event()

    async def blocks() -> None:
        busy.set()
        go.wait(10)

    first = Job(blocks)
    assert busy.wait(10)

    async def never() -> None:
        raise AssertionError("it ran")

    second = Job.__new__(Job)
    second.window, second.runner = Window(), first.runner
    second.reach, second.landed = Injection(second.window, first.runner), threading.Event()
    second._perform, second.result = never, None
    second.thread = threading.Thread(target=second._run, daemon=True)
    second.thread.start()
    wait_for(lambda: second.thread.ident is not None and first.runner.waits(second.thread.ident))
    assert second.aim()
    go.set()
    second.thread.join(10)
    assert isinstance(second.result, SoftTimeout)
    assert second.landed.is_set()
    assert first.ended() is None


@pytest.mark.interrupts
def test_a_thread_is_reached_within_milliseconds():
    job = Job(loop)
    started = time.monotonic()
    job.aim()
    assert job.landed.wait(5)
    assert time.monotonic() - started < 2
    job.ended()
