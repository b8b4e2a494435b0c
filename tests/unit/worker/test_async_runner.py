"""Coroutines of jobs on one loop: results, errors and cancellations reach the thread that waits."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from contextvars import ContextVar

import pytest

from offsider.core.errors import Shutdown
from offsider.worker.run import async_runner as module
from offsider.worker.run.async_runner import AsyncRunner
from tests.threads import hammering
from tests.waiting import wait_for

TOPIC: ContextVar[str] = ContextVar("topic", default="none")


@pytest.fixture
def runner():
    runner = AsyncRunner("test-loop")
    yield runner
    runner.stop()


@pytest.fixture
def threads():
    with ThreadPoolExecutor(8) as threads:
        yield threads


async def answer(value):
    await asyncio.sleep(0)
    return value


async def fail(error: BaseException):
    await asyncio.sleep(0)
    raise error


def test_a_coroutine_returns_its_result(runner):
    assert runner.run(answer(42)) == 42


def test_a_coroutine_raises_its_error(runner):
    with pytest.raises(ValueError, match="mine"):
        runner.run(fail(ValueError("mine")))


def test_context_variables_are_passed_to_the_job(runner):
    TOPIC.set("outer")

    async def look():
        return TOPIC.get()

    assert runner.run(look()) == "outer"


def test_coroutines_of_several_threads_run_at_the_same_time_on_one_loop(runner, threads):
    met = threading.Barrier(4)
    loops = []

    async def meet():
        loops.append(asyncio.get_running_loop())
        await asyncio.to_thread(met.wait, 10)

    for future in [threads.submit(runner.run, meet()) for _ in range(4)]:
        future.result(10)
    assert len(set(loops)) == 1


class Waiting:
    """A coroutine that waits for ever, in a thread of its own."""

    def __init__(self, runner, threads, body=None):
        self.entered = threading.Event()
        self.body = body
        self.thread_id = 0
        self.outcome = threads.submit(self._run, runner)
        assert self.entered.wait(10)

    def _run(self, runner):
        self.thread_id = threading.get_ident()
        return runner.run(self._wait())

    async def _wait(self):
        self.entered.set()
        if self.body is not None:
            return await self.body()
        return await asyncio.Event().wait()


def test_cancelling_raises_a_shutdown_in_the_thread(runner, threads):
    waiting = Waiting(runner, threads)
    assert runner.cancel(waiting.thread_id)
    with pytest.raises(Shutdown):
        waiting.outcome.result(10)
    assert runner.tasks() == []


def test_cancelling_reaches_only_the_coroutine_of_that_thread(runner, threads):
    first, second = Waiting(runner, threads), Waiting(runner, threads)
    assert len(runner.tasks()) == 2
    runner.cancel(first.thread_id)
    with pytest.raises(Shutdown):
        first.outcome.result(10)
    assert not second.outcome.done()
    runner.cancel(second.thread_id)


def test_an_error_during_cleanup_still_counts_as_a_stop(runner, threads):
    """It was on its way out because of the stop: no failure, no retry counted (row D3)."""

    async def clumsy():
        try:
            await asyncio.Event().wait()
        finally:
            raise ConnectionError("closing what was closed already")

    waiting = Waiting(runner, threads, clumsy)
    runner.cancel(waiting.thread_id)
    with pytest.raises(Shutdown):
        waiting.outcome.result(10)


def test_a_job_that_finishes_in_spite_of_the_stop_has_finished(runner, threads):
    async def stubborn():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done"

    waiting = Waiting(runner, threads, stubborn)
    runner.cancel(waiting.thread_id)
    assert waiting.outcome.result(10) == "done"


def test_a_job_that_cancels_itself_does_not_count_as_a_shutdown(runner):
    with pytest.raises(asyncio.CancelledError):
        runner.run(fail(asyncio.CancelledError()))


def test_there_is_nothing_to_cancel_for_a_thread_without_a_coroutine(runner):
    assert not runner.cancel(1)
    runner.run(answer(1))
    assert not runner.cancel(threading.get_ident())


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_an_exit_in_one_coroutine_leaves_the_others_running(runner, threads, error):
    """asyncio lets these two through its loop, which then ended for every job of the capsule."""
    other = Waiting(runner, threads)
    with pytest.raises(type(error)):
        runner.run(fail(error))
    assert runner.run(answer("still here")) == "still here"
    runner.cancel(other.thread_id)
    with pytest.raises(Shutdown):
        other.outcome.result(10)


def test_stopping_ends_the_loop_and_its_coroutines(runner, threads):
    waiting = Waiting(runner, threads)
    runner.stop()
    with pytest.raises((asyncio.CancelledError, Shutdown)):
        waiting.outcome.result(10)
    wait_for(lambda: "test-loop" not in [thread.name for thread in threading.enumerate()])
    runner.stop()


def test_without_coroutines_there_is_no_loop():
    AsyncRunner("idle-loop").stop()
    assert "idle-loop" not in [thread.name for thread in threading.enumerate()]


def test_a_coroutine_that_is_cancelled_before_it_begins_never_runs_on(runner, threads):
    """The loop is busy when the stop arrives: the coroutine has not taken its first step."""
    busy, go = threading.Event(), threading.Event()

    async def block():
        busy.set()
        go.wait(10)

    first = threads.submit(runner.run, block())
    assert busy.wait(10)
    known: list[int] = []

    def second_job():
        known.append(threading.get_ident())
        return runner.run(answer(1))

    second = threads.submit(second_job)
    wait_for(lambda: known and runner.cancel(known[0]))
    go.set()
    first.result(10)
    with pytest.raises(Shutdown):
        second.result(10)


@pytest.mark.parametrize("how", ["stop", "exit", "left behind"])
def test_no_job_ends_the_loop_for_the_others(runner, how):
    async def harm():
        if how == "stop":
            asyncio.get_running_loop().stop()
        elif how == "exit":
            raise SystemExit(3)
        else:

            async def later():
                raise SystemExit(3)

            tasks.append(asyncio.get_running_loop().create_task(later()))
        return "done"

    tasks: list[asyncio.Task[None]] = []
    if how == "exit":
        with pytest.raises(SystemExit):
            runner.run(harm())
    else:
        assert runner.run(harm()) == "done"
    wait_for(lambda: all(task.done() for task in tasks))
    for task in tasks:
        assert isinstance(task.exception(), SystemExit)
    assert runner.run(answer(42)) == 42


@pytest.mark.parametrize("late", ["cancel", "limit"])
def test_a_late_stop_or_limit_does_not_hit_the_next_coroutine(runner, late):
    rounds, over = threading.Barrier(2), threading.Event()
    caller = threading.get_ident()

    def stops() -> None:
        while True:
            rounds.wait(10)
            if over.is_set():
                return
            while runner.waits(caller) or not rounds.n_waiting:
                if late == "cancel":
                    runner.cancel(caller)
                else:
                    runner.limit(caller, Late)
            rounds.wait(10)

    stopping = threading.Thread(target=stops)
    stopping.start()
    ends = time.monotonic() + 1
    with hammering():  # threads change as often as can be
        while time.monotonic() < ends:
            rounds.wait(10)
            with suppress(Shutdown, Late):
                runner.run(answer(1), limited=True)
            rounds.wait(10)
            assert runner.run(answer(2), limited=True) == 2
    over.set()
    rounds.wait(10)
    stopping.join(10)


class LongWaits:
    """Counts the waits for long coroutines, and lets a coroutine wait until its thread is in one."""

    def __init__(self):
        self.entered = 0

    def __call__(self):
        self.entered += 1
        return nullcontext()

    async def begins(self, earlier):
        while self.entered == earlier:  # noqa: ASYNC110 - another thread changes it
            await asyncio.sleep(0.001)


@pytest.fixture
def waits():
    return LongWaits()


@pytest.fixture
def counted(waits):
    runner = AsyncRunner("counted-loop", waits)
    yield runner
    runner.stop()


def test_after_a_long_run_the_thread_gives_up_its_seat_at_once(counted, waits, monkeypatch):
    counted.run(waits.begins(0), name="Long")
    monkeypatch.setattr(module, "SHORT_SECONDS", 60)
    counted.run(waits.begins(1), name="Long")
    assert counted.run(answer(1), name="Other") == 1
    assert waits.entered == 2, "the length of one job's run says nothing about another job"


def test_after_a_short_run_the_thread_keeps_its_seat(counted, waits, monkeypatch):
    counted.run(waits.begins(0), name="Now short")
    monkeypatch.setattr(module, "SHORT_SECONDS", 60)
    assert [counted.run(answer(number), name="Now short") for number in range(3)] == [0, 1, 2]
    assert waits.entered == 2, "only the first of the three expected a long run"


def test_no_submitted_coroutine_is_left_behind(runner, threads):
    """The loop is woken once for several coroutines; a thread that submits at that moment must not be missed."""

    def run_many(first):
        return [runner.run(answer(number)) for number in range(first, first + 300)]

    with hammering():
        results = [threads.submit(run_many, first) for first in range(0, 2400, 300)]
        assert [number for result in results for number in result.result(60)] == list(range(2400))


class Late(asyncio.CancelledError):
    """A limit."""
