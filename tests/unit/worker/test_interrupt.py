"""A thread or coroutine is stopped in the middle of a job, and a thread never in the middle of our own bookkeeping."""

from __future__ import annotations

import asyncio
import pickle
import sys
import threading
import time
from contextlib import suppress

import pytest

from offsider.core.error_text import class_of
from offsider.core.errors import HardTimeout, Shutdown, SoftTimeout
from offsider.worker.run import interrupt
from offsider.worker.run.async_runner import AsyncRunner
from offsider.worker.run.interrupt import Injection, Window, caused_by
from tests.unit.worker.coroutines import Started, tasks
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("untraced")


class Worker:
    """A thread with a window, whose job and bookkeeping are given by the test."""

    def __init__(self, job, afterwards=lambda: None) -> None:
        self.window = Window()
        self.caught: list[str] = []
        self._job, self._afterwards = job, afterwards
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            try:
                with self.window:
                    self._job()
            except Shutdown:
                self.caught.append("in the job")
            self._afterwards()
        except BaseException as error:
            self.caught.append(f"outside: {error!r}")


def busy(until: threading.Event):
    def loop() -> None:
        while not until.is_set():
            pass

    return loop


@pytest.mark.interrupts
def test_a_job_is_interrupted_between_two_bytecodes():
    worker = Worker(busy(threading.Event()))
    wait_for(worker.window.interrupt)
    worker.thread.join(10)
    assert not worker.thread.is_alive()
    assert worker.caught == ["in the job"]


def test_outside_a_job_no_thread_is_interrupted():
    ended, go_on = threading.Event(), threading.Event()

    def bookkeeping() -> None:
        ended.set()
        go_on.wait(10)

    worker = Worker(lambda: None, bookkeeping)
    assert ended.wait(10)
    assert not worker.window.interrupt()
    go_on.set()
    worker.thread.join(10)
    assert worker.caught == []
    assert not Window().interrupt()


@pytest.mark.interrupts
def test_an_interruption_at_the_very_end_never_lands_in_the_bookkeeping():
    """Many jobs that end while they are interrupted: the code after them is never hit."""
    rounds, broken = [0], []
    window = Window()
    stop = threading.Event()

    def many_jobs() -> None:
        while not stop.is_set():
            try:
                with window:
                    for _ in range(50):
                        pass
            except Shutdown:
                pass
            try:
                rounds[0] += 1
                for _ in range(50):
                    pass
            except BaseException as error:
                broken.append(error)

    thread = threading.Thread(target=many_jobs, daemon=True)
    thread.start()
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline or (rounds[0] <= 100 and not broken):
        window.interrupt()
    stop.set()
    thread.join(60)
    assert not thread.is_alive()
    assert broken == []


@pytest.mark.interrupts
def test_a_window_can_be_used_again_after_an_interruption():
    rounds = 300
    inside, landed = threading.Semaphore(0), []
    window = Window()

    def jobs():
        for _ in range(rounds):
            try:
                with window:
                    inside.release()
                    while True:
                        pass
            except Shutdown:
                landed.append(window._thread_id)

    thread = threading.Thread(target=jobs, daemon=True)
    thread.start()
    for _ in range(rounds):
        assert inside.acquire(timeout=10)
        assert window.interrupt()
    thread.join(10)

    assert landed == [None] * rounds
    assert not window.interrupt()


@pytest.mark.interrupts
def test_a_job_that_swallowed_a_time_limit_can_still_be_stopped():
    swallowed = []

    def swallows() -> None:
        while True:
            try:
                while True:
                    pass
            except (SoftTimeout, HardTimeout) as error:
                swallowed.append(type(error))

    worker = Worker(swallows)
    wait_for(lambda: worker.window.interrupt(SoftTimeout))
    wait_for(lambda: swallowed == [SoftTimeout])
    assert worker.window.interrupt(SoftTimeout)  # the same again is not raised again
    assert worker.window.interrupt(HardTimeout)
    wait_for(lambda: swallowed == [SoftTimeout, HardTimeout])
    assert worker.window.interrupt()
    worker.thread.join(10)
    assert worker.caught == ["in the job"]
    assert swallowed == [SoftTimeout, HardTimeout]


def is_free(lock) -> bool:
    got = lock.acquire(blocking=False)
    if got:
        lock.release()
    return got


LOCKS = (threading.Lock, lambda: threading.Condition(threading.Lock()))


@pytest.mark.parametrize("make", LOCKS, ids=("lock", "condition"))
def test_a_lock_awaited_during_an_interruption_is_not_left_locked(make):
    lock, asks = make(), threading.Event()

    def job():
        asks.set()
        with lock:
            pass
        asks.clear()

    with lock:
        worker = Worker(job)
        assert asks.wait(10)
        threading.Event().wait(0.1)  # there is no signal that it waits for the lock
        worker.window.interrupt()
    worker.thread.join(10)
    assert not worker.thread.is_alive()
    assert is_free(lock)


@pytest.mark.parametrize("make", LOCKS, ids=("lock", "condition"))
def test_many_interruptions_leave_no_lock_locked_and_no_thread_waiting(make):
    """The closing of the window has a lock of its own."""
    window, lock, over, taken = Window(), make(), threading.Event(), []

    def jobs():
        while not over.is_set():
            try:
                with window:
                    for _ in range(300):
                        with lock:
                            pass
            except Shutdown:
                if not is_free(lock):
                    taken.append(lock)
                    return

    def interruptions():
        ends = time.monotonic() + 1
        while time.monotonic() < ends:
            window.interrupt()
            time.sleep(0.001)

    threads = [threading.Thread(target=work, daemon=True) for work in (jobs, interruptions)]
    for thread in threads:
        thread.start()
    threads[1].join(60)
    over.set()
    threads[0].join(10)
    assert not any(thread.is_alive() for thread in threads)
    assert taken == []


@pytest.mark.interrupts
def test_no_interruption_lands_where_a_context_manager_is_entered():
    entering, go_on, over = threading.Event(), threading.Event(), threading.Event()

    class Manager:
        def __enter__(self):
            entering.set()
            while not go_on._flag:  # not a call, so that this function is inspected
                pass

        def __exit__(self, *_):
            over.set()

    def job():
        with Manager():
            while True:
                pass

    worker = Worker(job)
    assert entering.wait(10)
    assert not worker.window.interrupt()
    go_on.set()
    wait_for(worker.window.interrupt)
    worker.thread.join(10)
    assert over.is_set()
    assert worker.caught == ["in the job"]


def test_no_thread_is_interrupted_if_cpython_would_leave_locks_locked(monkeypatch):
    monkeypatch.setattr(interrupt, "OBSTACLE", "a reason")
    done = threading.Event()
    worker = Worker(busy(done))
    wait_for(lambda: worker.window.thread_id is not None)
    assert not worker.window.interrupt()
    done.set()
    worker.thread.join(10)
    assert worker.caught == []


def test_whether_cpython_leaves_locks_locked_is_probed():
    """Only 3.14 and later do, until they are mended: then a lock that is interrupted on its way in is released."""
    assert interrupt.leaves_locks_taken() == ("might never release a lock" in interrupt.OBSTACLE)
    if sys.version_info < (3, 14):
        assert not interrupt.leaves_locks_taken()


def test_no_thread_is_interrupted_without_the_gil(monkeypatch):
    monkeypatch.setattr(interrupt, "leaves_locks_taken", lambda: False)
    monkeypatch.setattr(interrupt.gil, "is_on", lambda: True)
    assert interrupt.find_obstacle() == ""
    monkeypatch.setattr(interrupt.gil, "is_on", lambda: False)
    assert interrupt.find_obstacle().startswith("without the GIL")


def chained(cause: BaseException, *, by: str) -> BaseException:
    error = ValueError("what the job made of it")
    setattr(error, by, cause)
    return error


def test_errors_caused_by_a_stop_are_not_failures():
    assert caused_by(Shutdown, Shutdown())
    assert caused_by(Shutdown, chained(chained(Shutdown(), by="__cause__"), by="__context__"))
    assert not caused_by(Shutdown, chained(KeyError(), by="__cause__"))
    members = [Shutdown(), chained(Shutdown(), by="__cause__")]
    assert caused_by(Shutdown, BaseExceptionGroup("of a TaskGroup", members)) is members[0]
    assert not caused_by(Shutdown, BaseExceptionGroup("of a TaskGroup", [*members, KeyError()]))


class Job:
    """A job in a thread of its own, inside a window."""

    def __init__(self, perform) -> None:
        self.window = Window()
        self.reach = Injection(self.window)
        self.landed = threading.Event()
        self.result: object = None
        self._perform = perform
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        wait_for(lambda: self.window.thread_id is not None)

    def _run(self) -> None:
        try:
            with self.window:
                self.result = self._perform()
        except BaseException as error:
            self.result = error

    def aim(self, kind=SoftTimeout) -> bool:
        return self.reach.aim(kind, "time is up", self.landed.set)

    def ended(self) -> object:
        self.thread.join(10)
        assert not self.thread.is_alive()
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
    reach = Injection(Window())
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
    runner, landed = AsyncRunner("test"), threading.Event()
    started = Started(runner, waiting_coroutine(caught, how)())
    wait_for(lambda: tasks(runner))
    assert started.run.aim(SoftTimeout, "time is up", landed.set)
    assert started.result() == "cleaned up"
    [error] = caught
    assert str(error) == "time is up"
    assert isinstance(error, asyncio.CancelledError)
    assert landed.is_set()
    wait_for(lambda: len(CANCELLED) == cancelled)
    runner.stop()


def test_a_simultaneous_stop_wins():
    runner, busy, go, landed = AsyncRunner("test"), threading.Event(), threading.Event(), threading.Event()

    async def blocks() -> None:
        busy.set()
        go.wait(10)
        await asyncio.Event().wait()

    started = Started(runner, blocks())
    assert busy.wait(10)
    assert started.run.aim(SoftTimeout, "time is up", landed.set)
    started.run.interrupt()
    assert "threading.py" in started.run.place()  # where the loop hangs
    go.set()
    with pytest.raises(Shutdown):
        started.result()
    assert not landed.is_set()
    runner.stop()
