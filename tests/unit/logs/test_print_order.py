"""Output printed by a job appears between its start and end lines, for every destination of the log."""

from __future__ import annotations

import io
import logging
import os
import re
import select
import sys
from contextlib import ExitStack

import pytest

from offsider.config.config import Config
from offsider.logs import line_buffer
from offsider.logs.print_order import flush_before_writes
from offsider.logs.setup import logger, setup_logging, write_info


@pytest.fixture(autouse=True)
def untouched(monkeypatch):
    """No tick writes a line: only the order of writes counts."""
    monkeypatch.setattr(line_buffer, "TICK_SECONDS", 60)
    before = (logger.handlers[:], logger.level, logger.propagate)
    yield
    for handler in set(logger.handlers) - set(before[0]):
        handler.close()
    logger.handlers[:], logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


class Place:
    """Where a process writes both standard streams: a pipe, a file or a terminal."""

    def __init__(self, kind, folder, resources):
        if kind == "file":
            self.reading = os.open(folder / "log", os.O_RDWR | os.O_CREAT)
            writing = os.open(folder / "log", os.O_WRONLY | os.O_APPEND)
        else:
            self.reading, writing = os.pipe() if kind == "pipe" else os.openpty()
        resources.callback(os.close, self.reading)
        self.out = resources.enter_context(os.fdopen(writing, "w"))
        # Standard error is line-buffered everywhere, as in CPython.
        self.error = resources.enter_context(os.fdopen(os.dup(writing), "w", buffering=1))

    def run(self, job, monkeypatch):
        # Here, because pytest replaces both streams before it calls a test.
        monkeypatch.setattr(sys, "stdout", self.out)
        monkeypatch.setattr(sys, "stderr", self.error)
        job()
        return self.words()

    def words(self):
        """The last word of each line read up to now. A terminal may pass on output after a delay."""
        text = b""
        while select.select([self.reading], [], [], 0.05)[0] and (more := os.read(self.reading, 100_000)):
            text += more
        return re.findall(r"(\w+)\r?$", text.decode(), re.MULTILINE)


@pytest.fixture(params=["pipe", "file", "terminal"])
def place(request, tmp_path):
    with ExitStack() as resources:
        yield Place(request.param, tmp_path, resources)


def test_a_print_appears_between_start_and_done(place, monkeypatch):
    def job():
        setup_logging(Config().log)
        write_info("start", {})
        print("hello")
        write_info("done", {})
        logger.handlers[0]._buffer.flush()

    assert place.run(job, monkeypatch) == ["start", "hello", "done"]


def test_a_printed_line_appears_at_once(place, monkeypatch):
    def job():
        setup_logging(Config().log)
        print("hello")

    assert place.run(job, monkeypatch) == ["hello"]


def test_standard_error_and_its_log_handlers_keep_the_order_too(place, monkeypatch):
    def job():
        elsewhere = logging.StreamHandler()  # of the application, made before the worker's log
        setup_logging(Config().log)
        write_info("start", {})
        print("problem", file=sys.stderr)
        write_info("next", {})
        elsewhere.emit(logging.makeLogRecord({"msg": "record"}))
        write_info("done", {})
        sys.stdout.writelines(["more\n"])

    assert place.run(job, monkeypatch) == ["start", "problem", "next", "record", "done", "more"]


def test_only_the_latest_setup_is_asked_for_lines():
    stream = io.StringIO()
    calls = []
    for name in ("first", "second"):
        flush_before_writes(stream, lambda name=name: calls.append(name))
    stream.write("text")
    assert calls == ["second"]
    assert stream.getvalue() == "text"


def test_lines_put_during_a_write_do_not_overtake_it(place, monkeypatch):
    """A file is written through the stream itself, whose write would flush the buffer again."""

    def job():
        handler = setup_logging(Config().log)
        plain = handler._outlet.write

        def slow(text):
            if "first" in text:
                handler.put_line("second", {})  # by another thread
            plain(text)

        handler._outlet.write = slow
        write_info("first", {})
        handler._buffer.flush()
        handler._buffer.flush()

    assert place.run(job, monkeypatch) == ["first", "second"]


@pytest.mark.parametrize("stream", [None, object()])
def test_an_immutable_stream_is_unchanged(stream):
    flush_before_writes(stream, lambda: None)


def test_a_stream_without_attributes_is_unchanged():
    class Bare:
        __slots__ = ()

        def write(self, text):
            return len(text)

    flush_before_writes(Bare(), lambda: pytest.fail("not reached"))
    assert Bare().write("text") == 4
