"""Coroutines of jobs on one loop: their results, errors and cancellations, and the threads that finish them."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar, copy_context

import pytest

from offsider.core.errors import Shutdown, SoftTimeout
from offsider.worker.run import finishing
from offsider.worker.run.async_runner import AsyncRunner
from offsider.worker.run.coroutine_run import CoroutineRun
from tests.threads import hammering
from tests.unit.worker.coroutines import Started, tasks
from tests.waiting import wait_for

TOPIC: ContextVar[str] = ContextVar("topic", default="none")


@pytest.fixture
def runner():
    runner = AsyncRunner("test", 4000, 3)
    yield runner
    runner.stop()


@pytest.fixture
def threads():
    with ThreadPoolExecutor(8) as threads:
        yield threads


def finishers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("test-finishing-")]


async def answer(value):
    await asyncio.sleep(0)
    return value


async def for_ever():
    await asyncio.Event().wait()


def test_a_coroutine_and_its_finish_share_the_context_of_the_run(runner):
    context, seen = copy_context(), []
    context.run(TOPIC.set, "outer")

    async def look():
        seen.append(TOPIC.get())
        TOPIC.set("inner")

    Started(runner, look(), lambda: seen.append(context.run(TOPIC.get)), context).result()
    assert seen == ["outer", "inner"]
    assert TOPIC.get() == "none"


def test_coroutines_run_at_the_same_time_on_one_loop_and_keep_no_thread(runner):
    before, loops, met = threading.active_count(), [], asyncio.Event()

    async def meet():
        loops.append(asyncio.get_running_loop())
        if len(loops) == 1000:
            met.set()
        await met.wait()

    started = [Started(runner, meet()) for _ in range(1000)]
    wait_for(lambda: len(loops) == 1000)
    assert threading.active_count() <= before + 4
    for each in started:
        each.result()
    assert len(set(loops)) == 1


def test_a_stop_reaches_running_and_later_coroutines(runner):
    first = Started(runner, for_ever())
    assert not runner.wait(time.monotonic())
    runner.interrupt()
    for each in (first, Started(runner, for_ever())):
        with pytest.raises(Shutdown):
            each.result()
    assert runner.wait(time.monotonic())


def test_a_stop_does_not_wait_for_a_coroutine_that_was_given_up(runner):
    started = Started(runner, for_ever())
    runner.give_up(started.unit)
    assert runner.wait(time.monotonic())
    runner.wait_for(started.unit)
    runner.give_up(Started(runner, answer(1)).unit)
    started.run.interrupt()


def test_interrupting_reaches_only_one_coroutine(runner):
    first, second = Started(runner, for_ever()), Started(runner, for_ever())
    wait_for(lambda: len(tasks(runner)) == 2)
    first.run.interrupt()
    with pytest.raises(Shutdown):
        first.result()
    assert len(tasks(runner)) == 1
    second.run.interrupt()


def test_an_error_during_cleanup_still_counts_as_a_stop(runner):
    """It was on its way out because of the stop: no failure, no retry counted (row D3)."""

    async def clumsy():
        try:
            await asyncio.Event().wait()
        finally:
            raise ConnectionError("closing what was closed already")

    waiting = Started(runner, clumsy())
    wait_for(lambda: tasks(runner))
    waiting.run.interrupt()
    with pytest.raises(Shutdown):
        waiting.result()


def test_stopping_ends_the_loop_its_coroutines_and_the_finishing_threads(runner):
    waiting = Started(runner, for_ever())
    wait_for(lambda: tasks(runner))
    runner.stop()
    with pytest.raises(asyncio.CancelledError):
        waiting.result()
    wait_for(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("test-")])
    runner.stop()


@pytest.mark.parametrize("how", ["interrupt", "aim"])
def test_a_coroutine_that_is_cancelled_before_it_begins_never_runs_on(runner, how):
    """The loop is busy when the stop or the limit arrives: the coroutine has not taken its first step."""
    busy, go, ran = threading.Event(), threading.Event(), []

    async def block():
        busy.set()
        go.wait(10)

    async def second():
        ran.append(1)

    first = Started(runner, block())
    assert busy.wait(10)
    late = Started(runner, second())
    if how == "interrupt":
        late.run.interrupt()
    else:
        assert late.run.aim(SoftTimeout, "time is up", threading.Event().set)
    go.set()
    first.result()
    with pytest.raises(Shutdown if how == "interrupt" else SoftTimeout):
        late.result()
    assert ran == []


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
            Started(runner, harm()).result()
    else:
        assert Started(runner, harm()).result() == "done"
    wait_for(lambda: all(task.done() for task in tasks))
    for task in tasks:
        assert isinstance(task.exception(), SystemExit)
    assert Started(runner, answer(42)).result() == 42


async def wrapped(coroutine):
    return await coroutine


@pytest.mark.parametrize(
    "factory, error, limit",
    [
        (
            lambda loop, coroutine, **options: asyncio.Task(wrapped(coroutine), loop=loop, **options),
            LookupError,
            SoftTimeout,
        ),
        (lambda loop, coroutine: asyncio.Task(coroutine, loop=loop), TypeError, TypeError),
    ],
    ids=["awaits the coroutine, as Sentry's", "takes no context"],
)
def test_jobs_end_with_any_task_factory(runner, factory, error, limit):
    async def fails():
        raise LookupError("from the job")

    async def install():
        asyncio.get_running_loop().set_task_factory(factory)

    Started(runner, install()).result()
    with pytest.raises(error):
        Started(runner, fails()).result()
    begun = threading.Event()

    async def waits():
        begun.set()
        await asyncio.Event().wait()

    late = Started(runner, waits())
    wait_for(lambda: begun.is_set() or not runner.running)
    assert (" in wait" in late.run.place()) == begun.is_set()  # of the event, where the job waits
    late.run.aim(SoftTimeout, "time is up", threading.Event().set)
    with pytest.raises(limit):
        late.result()


@pytest.mark.parametrize("late", ["interrupt", "aim"])
def test_a_late_stop_or_limit_does_no_harm(runner, late):
    with hammering():  # threads change as often as can be
        for _ in range(200):
            started = Started(runner, answer(1))
            while runner.running:
                if late == "interrupt":
                    started.run.interrupt()
                else:
                    started.run.aim(SoftTimeout, "late", threading.Event().set)
            with suppress(Shutdown, SoftTimeout):
                started.result()
            assert not started.run.aim(SoftTimeout, "later", threading.Event().set)
            assert started.run.place() == ""
            assert Started(runner, answer(2)).result() == 2


def test_no_submitted_coroutine_is_left_behind(runner, threads):
    """The loop is woken once for several coroutines; a thread that submits at that moment must not be missed."""

    def run_many(first):
        return [Started(runner, answer(number)).result() for number in range(first, first + 100)]

    with hammering():
        results = [threads.submit(run_many, first) for first in range(0, 800, 100)]
        assert [number for result in results for number in result.result(60)] == list(range(800))


# --- seats ------------------------------------------------------------------------------------


def test_a_thread_waits_for_a_seat_until_a_run_is_finished_or_the_worker_is_quiet(threads):
    runner = AsyncRunner("test", 1)
    go_on = threading.Event()
    first = Started(runner, answer(1), lambda: go_on.wait(20))
    wait_for(finishers)
    second, third = threads.submit(runner.take_seat), threads.submit(runner.take_seat)
    assert not second.done()
    go_on.set()
    first.result()
    wait_for(lambda: second.done() or third.done())
    runner.quiet()
    assert sorted([second.result(20), third.result(20)]) == [False, True]
    assert not runner.take_seat()
    runner.stop()


# --- finishing threads ------------------------------------------------------------------------


def test_a_finish_that_blocks_delays_no_other(runner):
    go_on = threading.Event()
    blocking = [Started(runner, answer(1), lambda: go_on.wait(20)) for _ in range(2)]
    for number in range(100):
        assert Started(runner, answer(number)).result() == number
    assert len(finishers()) <= 3
    go_on.set()
    for each in blocking:
        each.result()


def test_a_finish_that_raises_does_not_end_its_thread(runner):
    def fails():
        raise KeyboardInterrupt

    for _ in range(4):
        failing = Started(runner, answer(1), fails)
        runner.wait_for(failing.unit)
    assert Started(runner, answer(2)).result() == 2


def test_finishing_threads_without_work_end_but_one(runner, monkeypatch):
    monkeypatch.setattr(finishing, "IDLE_SECONDS", 0.02)
    met = threading.Barrier(3)
    for each in [Started(runner, answer(1), lambda: met.wait(20)) for _ in range(3)]:
        each.result()
    wait_for(lambda: len(finishers()) == 1)
    assert Started(runner, answer(2)).result() == 2


def test_without_more_threads_of_the_system_a_run_is_finished_later(runner, monkeypatch):
    refused = []

    def start(thread):
        if len(refused) < 3 and thread.name.startswith("test-finishing-"):
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        real(thread)

    real = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", start)
    assert Started(runner, answer(1)).result() == 1
    assert len(refused) == 3


def test_a_coroutine_that_was_never_started_can_be_reached():
    coroutine = answer(1)
    run = CoroutineRun(coroutine)
    run.interrupt()
    assert run.aim(SoftTimeout, "time is up", threading.Event().set)
    assert run.place() == ""
    coroutine.close()
