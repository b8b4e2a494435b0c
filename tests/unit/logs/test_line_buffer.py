"""Lines that are written together: all of them, once, in their order, and only by the process that logged them."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import textwrap
import threading
import weakref

import pytest

from offsider.logs import line_buffer as module
from offsider.logs.line_buffer import LineBuffer
from tests.waiting import wait_for


@pytest.fixture
def written():
    return []


@pytest.fixture
def buffer(written):
    return LineBuffer(written.append, threading.RLock())


def test_lines_are_written_together_and_in_order(buffer, written):
    for number in range(5):
        buffer.put(f"{number}\n")
    wait_for(lambda: written, 5)
    assert written == ["0\n1\n2\n3\n4\n"]


def test_the_writer_writes_line_after_line(buffer, written):
    for number in range(3):
        buffer.put(f"{number}\n")
        wait_for(lambda number=number: f"{number}\n" in written, 5)
    assert written == ["0\n", "1\n", "2\n"]


def test_flushing_waits_for_lines_that_another_thread_is_writing():
    """Otherwise a `print` comes before the lines that were logged before it."""
    writing, may_end, flushed = threading.Event(), threading.Event(), threading.Event()

    def write(_: str) -> None:
        writing.set()
        assert may_end.wait(10)

    buffer = LineBuffer(write, threading.RLock())
    buffer.put("start\n")
    assert writing.wait(5)

    def flush() -> None:
        buffer.flush()
        flushed.set()

    thread = threading.Thread(target=flush)
    thread.start()
    try:
        assert not flushed.wait(0.1)
    finally:
        may_end.set()
    assert flushed.wait(5)
    thread.join()


def test_flushing_writes_at_once(buffer, written, monkeypatch):
    monkeypatch.setattr(module, "TICK_SECONDS", 60)
    buffer.put("a\n")
    buffer.flush()
    assert written == ["a\n"]
    buffer.flush()
    assert written == ["a\n"]


def test_the_writer_starts_with_the_first_line(buffer):
    buffer.flush()
    assert "offsider-log" not in [thread.name for thread in threading.enumerate() if thread is buffer._writer]
    assert buffer._writer is None


def test_many_threads_lose_and_double_nothing(buffer, written):
    def put(thread: int) -> None:
        for number in range(500):
            buffer.put(f"{thread}.{number}\n")

    threads = [threading.Thread(target=put, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    buffer.flush()
    wait_for(lambda: sum(text.count("\n") for text in written) == 2000, 5)
    lines = "".join(written).splitlines()
    assert len(set(lines)) == 2000
    for thread in range(4):
        mine = [line for line in lines if line.startswith(f"{thread}.")]
        assert mine == sorted(mine, key=lambda line: int(line.partition(".")[2]))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_writes_its_own_lines_and_not_its_parents(buffer, written, monkeypatch):
    monkeypatch.setattr(module, "TICK_SECONDS", 60)
    buffer.put("parent\n")
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover - another process
        try:
            os.close(reading)
            buffer.put("child\n")
            buffer.flush()
            os.write(writing, "".join(written).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b"child\n"
    os.waitpid(pid, 0)
    buffer.flush()
    assert written == ["parent\n"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_during_a_write_leaves_no_locked_lock_in_the_child(monkeypatch):
    inside, go_on = threading.Event(), threading.Event()

    def slow(text: str) -> None:
        inside.set()
        assert go_on.wait(10)

    handler = logging.StreamHandler()  # logging replaces the locks of handlers in a child
    buffer = LineBuffer(slow, handler.lock)
    buffer.put("parent\n")
    assert inside.wait(5)
    pid = os.fork()
    if pid == 0:  # pragma: no cover - another process
        buffer._write = lambda text: None
        buffer.put("child\n")
        buffer.flush()
        os._exit(7)
    go_on.set()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_remaining_lines_are_written_at_process_exit():
    text = """
        import sys
        import threading
        from offsider.logs import line_buffer
        line_buffer.TICK_SECONDS = 60
        buffer = line_buffer.LineBuffer(sys.stdout.write, threading.RLock())
        buffer.put("last words\\n")
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, check=True, timeout=30
    )
    assert ended.stdout == "last words\n"


def test_an_unused_buffer_is_dropped():
    """Neither the hooks of forks nor those of the end keep it."""
    buffer = LineBuffer(lambda text: None, threading.RLock())
    forgotten = weakref.ref(buffer)
    del buffer
    gc.collect()
    assert forgotten() is None
    assert module._with(forgotten, LineBuffer.flush) is None


def test_a_full_buffer_is_written_by_the_thread_that_filled_it(monkeypatch):
    """Otherwise a blocked reader would let the worker's memory grow."""
    monkeypatch.setattr(module, "MOST_LINES", 3)
    monkeypatch.setattr(module, "TICK_SECONDS", 60)
    written: list[str] = []
    buffer = LineBuffer(written.append, threading.RLock())
    for _ in range(4):
        buffer.put("line\n")
    assert written == ["line\nline\nline\n"]


def test_two_concurrent_first_threads_start_one_writer():
    buffer = LineBuffer(lambda text: None, threading.RLock())
    buffer._start()
    writer = buffer._writer
    buffer._start()
    assert buffer._writer is writer


class Overtaken:
    """A lock that is released only after another thread has written everything."""

    def __init__(self) -> None:
        self.buffer: LineBuffer | None = None

    def __enter__(self) -> None:
        assert self.buffer is not None
        self.buffer._lines.clear()

    def __exit__(self, *given: object) -> None:
        pass


def test_lines_written_by_another_thread_are_not_written_twice(monkeypatch):
    monkeypatch.setattr(module, "TICK_SECONDS", 60)
    lock = Overtaken()
    written: list[str] = []
    lock.buffer = LineBuffer(written.append, lock)
    lock.buffer.put("line\n")
    lock.buffer.flush()
    assert written == []
