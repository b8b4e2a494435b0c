"""The log of a process whose reader is slow, stops reading or exits: jobs and stops do not wait for it."""

from __future__ import annotations

import fcntl
import io
import json
import logging
import logging.config
import os
import re
import select
import subprocess
import sys
import textwrap
import threading
import time
from functools import partial

import pytest

from offsider.cli.forks import other_threads
from offsider.config.config import Config
from offsider.logs import output, setup
from offsider.logs.output import LineQueue
from offsider.logs.setup import Json, OffsiderHandler, TextFormatter, logger, setup_logging, write_info
from tests.threads import together
from tests.waiting import wait_for


class Reader:
    """The other end of a stream."""

    def __init__(self, kind):
        self.number, writing = os.pipe() if kind == "pipe" else os.openpty()
        self.stream = os.fdopen(writing, "w")

    def read(self, handler=None):
        """Return the lines that arrive until the handler has written everything."""
        text = b""
        written = handler is None
        while (ready := select.select([self.number], [], [], 0.1 if text else 20)[0]) or not written:
            text += os.read(self.number, 100_000) if ready else b""
            written = handler is None or handler._waiting.join(0)
        return text.decode().splitlines()


@pytest.fixture(params=["pipe", "terminal"])
def reader(request):
    reader = Reader(request.param)
    yield reader
    os.close(reader.number)
    reader.stream.close()


@pytest.fixture
def handler_of():
    """Makes handlers; their threads end with the test."""
    made = []

    def make(stream, lines=TextFormatter):
        made.append(OffsiderHandler(stream, lines()))
        return made[-1]

    yield make
    for handler in made:
        handler.close()
    wait_for(lambda: not any(thread.name == output.WRITER for thread in threading.enumerate()))


def record(text):
    return logging.makeLogRecord({"name": "offsider", "levelname": "INFO", "msg": text})


def log(handler, way, text):
    handler.put_line(text, {}) if way == "queued" else handler.handle(record(text))


def messages(lines):
    return [line.rpartition(": ")[2] for line in lines]


@pytest.mark.parametrize("way", ["queued", "written"])
def test_lines_are_written(handler_of, reader, way):
    handler = handler_of(reader.stream)
    for text in "abc":
        log(handler, way, text)
    handler.flush()
    assert messages(reader.read()) == ["a", "b", "c"]


@pytest.mark.parametrize("kind, way", [("pipe", "queued"), ("terminal", "queued"), ("pipe", "written")])
def test_a_reader_that_does_not_read_blocks_nobody_for_long(handler_of, monkeypatch, kind, way):
    monkeypatch.setattr(output, "MAX_LINES", 1_000)
    monkeypatch.setattr(setup, "FLUSH_SECONDS", 0.2)
    reader = Reader(kind)
    handler = handler_of(reader.stream, Json)
    started = time.monotonic()
    count = 4_000
    for number in range(count):
        log(handler, way, f"{number:0100}")
    handler.flush()
    handler.flush()
    assert 0.15 <= time.monotonic() - started < 60
    lines = reader.read(handler)
    log(handler, way, "after")
    entries = [json.loads(line) for line in [*lines, *reader.read(handler)]]
    (dropped,) = [entry for entry in entries if "dropped_lines" in entry]
    assert dropped["message"] == f"{dropped['dropped_lines']:,} lines of the log dropped: the reader was blocked"
    assert dropped["severity"] == "WARN"
    kept = [int(entry["message"]) for entry in entries if entry["message"].isdigit()]
    assert kept == sorted(set(kept))
    assert len(kept) + dropped["dropped_lines"] == count
    assert "after" in [entry["message"] for entry in entries]
    os.close(reader.number)
    reader.stream.close()


def test_the_last_lines_are_waited_for_although_the_reader_was_slow_before(handler_of, reader, monkeypatch):
    handler = handler_of(reader.stream)
    handler.put_line("y" * 100_000, {})
    with monkeypatch.context() as patched:
        patched.setattr(setup, "FLUSH_SECONDS", 0.2)
        handler.flush()
    assert messages(reader.read(handler)) == ["y" * 100_000]
    handler.put_line("last", {})
    handler.flush()
    assert handler._waiting.join(0)
    assert messages(reader.read()) == ["last"]


@pytest.mark.parametrize("size", [40, 9_000], ids=["lines", "one line"])
def test_a_record_for_which_the_pipe_has_too_little_room_blocks_no_caller(handler_of, size):
    reader = Reader("pipe")
    os.write(reader.stream.fileno(), b"y" * (fcntl.fcntl(reader.number, fcntl.F_GETPIPE_SZ) - 4_097) + b"\n")
    handler = handler_of(reader.stream)
    text = "\n".join(["#" * size] * (9_000 // size))
    logging_thread = threading.Thread(target=log, args=(handler, "written", text), daemon=True)
    logging_thread.start()
    logging_thread.join(20)
    blocked = logging_thread.is_alive()
    assert "".join(reader.read(handler)).count("#") == 9_000 // size * size
    assert not blocked
    os.close(reader.number)
    reader.stream.close()


def test_the_lines_before_the_end_of_a_queue_are_written():
    lines = LineQueue()
    lines.put_nowait("a")
    assert lines.get() == "a"
    for line in ("b", "c", None):
        lines.put_nowait(line)
    assert [lines.get(), lines.get()] == ["bc", None]


def test_a_long_line_is_whole(handler_of, reader):
    handler = handler_of(reader.stream)
    handler.put_line("y" * 30_000, {})
    handler.put_line("after", {})
    assert messages(reader.read(handler)) == ["y" * 30_000, "after"]


@pytest.mark.parametrize("kind", ["memory", "file", "no poll", "closed", "closed before"])
def test_other_streams(handler_of, tmp_path, monkeypatch, capsys, kind):
    if kind == "no poll":
        monkeypatch.delattr(select, "poll")
    file = tmp_path / "log"
    stream = io.StringIO() if kind == "memory" else file.open("w", encoding="ascii")
    if kind == "closed before":
        number = os.dup(stream.fileno())
        stream.close()
        stream = open(number, "w", closefd=False)  # noqa: SIM115  # closed before its first use
        os.close(number)
    handler = handler_of(stream)
    if kind == "closed":
        stream.close()
    for way in ("written", "queued"):
        log(handler, way, "\N{SNOWMAN}a")
        handler.flush()
    if kind.startswith("closed"):
        error = "offsider: cannot write the log: Bad file descriptor; the worker continues without these lines\n"
        assert capsys.readouterr().err == error
        return
    lines = (stream.getvalue() if kind == "memory" else file.read_text()).splitlines()
    assert messages(lines) == ["\N{SNOWMAN}a" if kind == "memory" else "\\u2603a"] * 2
    stream.close()


def test_a_forked_child_writes_only_its_own_lines(reader):
    (handler,) = logger.handlers[:] = [OffsiderHandler(reader.stream, TextFormatter())]
    handler.put_line("parent", {})
    child = os.fork()
    if child == 0:
        handler.put_line("child", {})
        handler.flush()
        os._exit(0)
    os.waitpid(child, 0)
    handler.flush()
    assert sorted(messages(reader.read())) == ["child", "parent"]
    handler.close()


def test_a_fork_meets_no_writer_unless_its_reader_does_not_read(handler_of, reader, monkeypatch):
    handler = handler_of(reader.stream)
    monkeypatch.setattr(logger, "handlers", [handler])
    handler.put_line("y" * 100_000, {})
    with monkeypatch.context() as patched:
        patched.setattr(setup, "FLUSH_SECONDS", 0.2)
        setup.end_writers()
    assert any(thread.name == output.WRITER for thread in threading.enumerate())
    assert output.WRITER not in other_threads()
    assert len(reader.read(handler)) == 1
    setup.end_writers()
    assert not any(thread.name == output.WRITER for thread in threading.enumerate())
    handler.put_line("later", {})
    assert messages(reader.read(handler)) == ["later"]


def test_concurrent_first_lines_start_one_writer(handler_of):
    handler = handler_of(stream := io.StringIO())
    together(*[partial(handler.put_line, str(number), {}) for number in range(20)])
    assert sum(thread.name == output.WRITER for thread in threading.enumerate()) == 1
    handler.flush()
    assert sorted(map(int, messages(stream.getvalue().splitlines()))) == list(range(20))


def test_a_late_dictconfig_loses_no_line():
    handler = setup_logging(Config().log, stream := io.StringIO())
    write_info("one", {})
    logging.config.dictConfig({"version": 1})
    write_info("two", {})
    logger.warning("three")
    handler.flush()
    assert messages(stream.getvalue().splitlines()) == ["one", "two", "three"]
    handler.close()


@pytest.mark.parametrize("late", ["", "logging.config.dictConfig({'version': 1})"])
def test_the_last_lines_before_the_exit_are_written(late):
    program = f"""
        import logging.config
        from offsider.config.config import Config
        from offsider.logs.setup import logger, setup_logging, write_info
        setup_logging(Config().log)
        {late}
        write_info("one", {{}})
        logger.warning("two")
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    assert re.findall(r": (\w+)$", ended.stdout, re.MULTILINE) == ["one", "two"]
