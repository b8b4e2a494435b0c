"""A thread is stopped in the middle of a job, and never in the middle of our own bookkeeping."""

from __future__ import annotations

import ctypes
import sys
import threading
import time

import pytest

from offsider.core.errors import HardTimeout, Shutdown, SoftTimeout
from offsider.worker.run import interrupt
from offsider.worker.run.interrupt import Window, caused_by_shutdown
from tests.waiting import wait_for


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
@pytest.mark.usefixtures("untraced")
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
@pytest.mark.usefixtures("untraced")
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
    while time.monotonic() < deadline:
        window.interrupt()
    stop.set()
    thread.join(10)
    assert not thread.is_alive()
    assert broken == []
    assert rounds[0] > 100


@pytest.mark.interrupts
@pytest.mark.usefixtures("untraced")
def test_a_second_interruption_is_the_same_as_the_first():
    held = threading.Event()

    def waits() -> None:
        held.wait(10)  # a system call: the exception is raised when it returns

    worker = Worker(waits)
    wait_for(worker.window.interrupt)
    assert worker.window.interrupt()
    held.set()
    worker.thread.join(10)
    assert worker.caught in ([], ["in the job"])  # it may land at the end of the window, where it does no harm


@pytest.mark.interrupts
@pytest.mark.usefixtures("untraced")
def test_a_late_interruption_is_caught_when_the_window_closes():
    """The job has ended well, so it has not been interrupted."""
    inside, end = threading.Event(), threading.Event()

    def job():
        inside.set()
        assert end.wait(10)

    worker = Worker(job)
    assert inside.wait(10)
    with worker.window._lock:
        end.set()
        wait_for(lambda: sys._current_frames()[worker.thread.ident].f_code.co_name == "__exit__")
        worker.window._aimed = Shutdown
        aim(worker.thread)
    worker.thread.join(10)

    assert not worker.thread.is_alive()
    assert worker.caught == []


def aim(thread):
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Shutdown))


@pytest.mark.interrupts
@pytest.mark.usefixtures("untraced")
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
@pytest.mark.usefixtures("untraced")
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


@pytest.mark.interrupts
@pytest.mark.usefixtures("untraced")
def test_after_a_stop_has_been_aimed_a_time_limit_is_of_no_matter():
    held = threading.Event()
    worker = Worker(lambda: held.wait(10))
    wait_for(worker.window.interrupt)
    assert worker.window.interrupt(SoftTimeout)
    assert worker.window._aimed is Shutdown
    assert worker.window.thread_id == worker.thread.ident
    held.set()
    worker.thread.join(10)
    assert worker.caught in ([], ["in the job"])


@pytest.mark.usefixtures("untraced")
def test_an_error_of_the_job_is_not_hidden_by_a_late_interruption():
    def fails():
        raise LookupError("of the job")

    worker = Worker(fails)
    worker.thread.join(10)

    assert worker.caught == ["outside: LookupError('of the job')"]


def is_free(lock) -> bool:
    got = lock.acquire(blocking=False)
    if got:
        lock.release()
    return got


LOCKS = (threading.Lock, lambda: threading.Condition(threading.Lock()))


@pytest.mark.usefixtures("untraced")
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


@pytest.mark.usefixtures("untraced")
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
@pytest.mark.usefixtures("untraced")
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


def test_under_a_tracer_of_3_11_no_thread_is_interrupted(monkeypatch):
    monkeypatch.setattr("offsider.worker.run.interrupt._may_aim", lambda: False)
    done = threading.Event()
    worker = Worker(busy(done))
    wait_for(lambda: worker.window._thread_id is not None)
    assert not worker.window.interrupt()
    done.set()
    worker.thread.join(10)
    assert worker.caught == []


def chained(cause: BaseException, *, by: str) -> BaseException:
    error = ValueError("what the job made of it")
    setattr(error, by, cause)
    return error


def test_errors_caused_by_a_stop_are_not_failures():
    assert caused_by_shutdown(Shutdown())
    assert caused_by_shutdown(chained(Shutdown(), by="__cause__"))
    assert caused_by_shutdown(chained(Shutdown(), by="__context__"))
    assert caused_by_shutdown(chained(chained(Shutdown(), by="__cause__"), by="__context__"))
    assert not caused_by_shutdown(ValueError())
    assert not caused_by_shutdown(chained(KeyError(), by="__cause__"))


def test_a_chain_that_bites_its_tail_has_an_end():
    one, other = ValueError(), KeyError()
    one.__context__, other.__context__ = other, one
    assert not caused_by_shutdown(one)
