"""Log setup: handlers, the content of a line, and values that cannot forge lines."""

from __future__ import annotations

import functools
import io
import json
import logging
import os
import re
import subprocess
import sys
import textwrap
import threading
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from offsider.config.config import Config
from offsider.config.containers import Shared
from offsider.logs import output
from offsider.logs.setup import (
    WITHOUT_FIELDS,
    JobFieldsFilter,
    base36,
    job_level,
    logger,
    setup_logging,
    thread_id,
    timestamp,
    web_logger,
    write_info,
)
from offsider.runtime.context import JobContext, running
from offsider.runtime.propagation import context
from tests.waiting import wait_for


def log_to(style, level="info", stream=None):
    config = Config()
    config.log.format = style
    config.log.level = level
    stream = stream or io.StringIO()
    setup_logging(config.log, stream)
    return stream


class Terminal(io.StringIO):
    def isatty(self):
        return True


def job(**log):
    return JobContext(TAGGED, "default", log=log)


def test_the_library_installs_no_handler():
    assert logger.name == "offsider"
    assert logger.handlers == []


TAGGED = {"class": "Hard", "args": [], "jid": "ab12", "tags": ["x", "y"]}
ACTIVE_JOB = {"class": "Sidekiq::ActiveJob::Wrapper", "wrapped": "MailJob", "args": [], "jid": "ab12"}


@pytest.mark.parametrize(
    "payload, log, expected",
    [
        (TAGGED, {"rows": 7, "request": "r1"}, "jid=ab12 class=Hard tags=x,y rows=7 request=r1 elapsed=0.5"),
        ({"class": "Hard", "args": [], "jid": "ab12"}, {}, "jid=ab12 class=Hard elapsed=0.5"),
        (ACTIVE_JOB, {}, "jid=ab12 class=MailJob elapsed=0.5"),
        (None, {}, "elapsed=0.5"),
    ],
    ids=["tags and fields", "no tags", "Active Job", "no job"],
)
def test_a_line_of_text_has_the_fields_of_its_job(payload, log, expected):
    stream = log_to("text")
    with nullcontext() if payload is None else running(JobContext(payload, "default", log=log)):
        logger.warning("hello %s", "world", extra={"fields": {"elapsed": 0.5004}})
    assert re.fullmatch(
        rf"WARN  \d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{{3}}Z pid=\d+ tid=[0-9a-z]+ {expected}: hello world\n",
        stream.getvalue(),
    )


def test_a_logger_class_of_the_application_is_kept():
    text = (
        "import logging\n"
        "class Own(logging.Logger): pass\n"
        "logging.setLoggerClass(Own)\n"
        "from offsider.logs.setup import logger\n"
        "assert isinstance(logger, Own)"
    )
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60)


def test_a_traceback_that_cannot_be_formatted_is_replaced_by_class_and_message(monkeypatch):
    def fail(error):
        raise RecursionError

    stream = log_to("text")
    monkeypatch.setattr("traceback.format_exception", fail)
    logger.error("x", exc_info=ValueError("boom"))
    assert "ValueError: boom" in stream.getvalue()


def test_a_json_line_is_flat():
    stream = log_to("json")
    with running(job(rows=7, request="r1")):
        logger.warning("two\n%s", "lines", extra={"fields": {"elapsed": 0.5}})
    entry = json.loads(stream.getvalue())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry.pop("time"))
    assert entry == {
        "severity": "WARN",
        "pid": os.getpid(),
        "tid": thread_id(),
        "message": "two\nlines",
        "class": "Hard",
        "jid": "ab12",
        "queue": "default",
        "tags": ["x", "y"],
        "correlation_id": "ab12",
        "request": "r1",
        "rows": 7,
        "elapsed": 0.5,
    }
    assert stream.getvalue().count("\n") == 1


def test_outside_jobs_a_json_line_has_the_fields_of_the_open_block():
    stream = log_to("json")
    with context(user="ann", correlation_id="c1"):
        logger.info("x")
    logger.info("y")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["meta.user"], first["correlation_id"]) == ("ann", "c1")
    assert set(second) == {"time", "severity", "pid", "tid", "message"}


def test_no_field_of_a_job_can_imitate_a_built_in_field():
    stream = log_to("json")
    with running(job(severity="FATAL", jid="other", message="forged")):
        logger.info("x")
    entry = json.loads(stream.getvalue())
    assert (entry["severity"], entry["jid"], entry["message"]) == ("INFO", "ab12", "x")


@pytest.mark.parametrize("arguments", [False, True])
def test_a_json_error_has_job_and_arguments_only_if_enabled(arguments):
    config = Config()
    config.log.format, config.log.arguments = "json", arguments
    stream = io.StringIO()
    setup_logging(config.log, stream)
    payload = {"class": "Hard", "args": ["secret"], "jid": "ab", "queue": "low", "meta.user": "ann"}

    def fail():
        raise LookupError("gone")

    try:
        fail()
    except LookupError as error:
        config.handle_error(error, {"job": payload})
    entry = json.loads(stream.getvalue())
    assert (entry["severity"], entry["message"]) == ("WARN", "LookupError: gone")
    assert (entry["class"], entry["jid"], entry["queue"], entry["meta.user"]) == ("Hard", "ab", "low", "ann")
    assert (entry["error_class"], entry["error_message"]) == ("LookupError", "gone")
    assert ":in `fail'" in entry["error_backtrace"][0]
    assert ("secret" in stream.getvalue()) is arguments


def test_colour_is_for_terminals(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = log_to("text", stream=Terminal())
    logger.error("red")
    assert terminal.getvalue().startswith("\x1b[31mERROR\x1b[0m ")
    pipe = log_to("text")
    logger.error("text")
    assert pipe.getvalue().startswith("ERROR ")
    monkeypatch.setenv("NO_COLOR", "1")
    dull = log_to("text", stream=Terminal())
    logger.error("text")
    assert dull.getvalue().startswith("ERROR ")


def test_no_value_can_forge_a_line_or_reach_the_terminal():
    stream = log_to("text")
    evil = "x\nERROR pid=1 tid=1: forged \x1b[2J\r\u2028"
    with running(job(name=evil)):
        logger.info("message %s", evil)
        logger.info(f"message {evil}")
    first, second, third = stream.getvalue().splitlines()
    assert first.count("x\\nERROR") == 2
    assert first.count("\\x1b[2J\\r\\u2028") == 2
    assert second.endswith("message x")
    assert third.startswith("  ERROR pid=1")
    assert "\x1b" not in stream.getvalue()


def test_no_value_can_forge_a_line_of_a_handler_of_the_application():
    own = logging.StreamHandler(io.StringIO())
    own.addFilter(JobFieldsFilter())
    own.setFormatter(logging.Formatter("%(class)s %(jid)s: %(message)s"))
    logger.handlers[:] = [own]
    with running(JobContext({"class": "Hard\x1b[2J", "args": [], "jid": "ab\nERROR"}, "default")):
        logger.warning("message %s", "x\nERROR \x9b")
    assert own.stream.getvalue() == "Hard\\x1b[2J ab\\nERROR: message x\\nERROR \\x9b\n"


def test_a_record_may_have_a_mapping_of_arguments():
    stream = log_to("text")
    logger.info("%(count)d jobs", {"count": 2})
    assert stream.getvalue().endswith(": 2 jobs\n")


def test_a_traceback_is_set_in():
    stream = log_to("text")
    try:
        int("a\nb")
    except ValueError:
        logger.exception("failed")
    lines = stream.getvalue().splitlines()
    assert lines[0].endswith(": failed")
    assert lines[1] == "  Traceback (most recent call last):"
    assert lines[-1] == "  ValueError: invalid literal for int() with base 10: 'a\\nb'"
    assert all(line.startswith("  ") for line in lines[1:])


class Nasty(Exception):
    def __str__(self):
        raise RuntimeError("no")

    __repr__ = __str__


def test_our_own_frames_of_a_failed_job_are_one_line():
    def fail():
        raise ValueError("boom")

    stream = log_to("text")
    with pytest.raises(ValueError, match="boom") as caught:
        Shared().get(int, functools.partial(Shared().get, int, fail))  # two frames of ours
    for folded in (True, False):
        logger.warning("failed", exc_info=caught.value, extra={"folded": folded})
    block, full = stream.getvalue().removeprefix("WARN  ").split("WARN  ")
    assert "\n    … 2 frames of offsider\n" in block
    assert "containers.py" not in block
    assert f'File "{__file__}"' in block
    assert 'raise ValueError("boom")' in block
    assert block.endswith("ValueError: boom\n")
    assert full.count("containers.py") == 2


def test_values_whose_str_raises_do_not_break_a_line():
    stream = log_to("text")
    with running(job(thing=Nasty())):
        logger.info("about %s", Nasty(), exc_info=Nasty())
    text = stream.getvalue()
    assert "thing=<Nasty>" in text
    assert "its arguments cannot be shown" in text


def test_a_second_setup_replaces_the_first():
    first = log_to("text")
    write_info("queued", {})
    second = log_to("text")
    logger.info("x")
    assert re.findall(r": (\w+)$", first.getvalue(), re.MULTILINE) == ["queued"]
    assert re.findall(r": (\w+)$", second.getvalue(), re.MULTILINE) == ["x"]
    assert logger.propagate is False


@pytest.mark.parametrize(
    "level, lines", [("debug", ["d", "i", "w"]), ("warning", ["w"]), (None, ["i", "w"]), ("loud", ["i", "w"])]
)
def test_a_job_has_its_own_level(level, lines):
    stream = log_to("text")
    with job_level(level):
        logger.debug("d")
        logger.info("i")
        logger.warning("w")
    assert [line.rpartition(" ")[2] for line in stream.getvalue().splitlines()] == lines
    logger.debug("d")
    assert stream.getvalue().count("\n") == len(lines)


@pytest.mark.parametrize("level", [None, "debug"])
def test_disabled_logging_is_disabled_below_warning(level):
    stream = log_to("text")
    logging.disable(logging.CRITICAL)
    try:
        with job_level(level):
            logger.info("info")
            logger.warning("warning")
        web_logger.debug("debug")
        web_logger.info("audit")
    finally:
        logging.disable(logging.NOTSET)
    assert [line.rpartition(" ")[2] for line in stream.getvalue().splitlines()] == ["warning", "audit"]


def test_a_message_that_repeats_its_fields_is_short_in_our_formats():
    stream = log_to("text")
    extra = {"fields": {"who": "kim"}, WITHOUT_FIELDS: "Deleted"}
    logger.info("who=kim: Deleted", extra=extra)
    assert re.fullmatch(r"INFO  \S+ pid=\d+ tid=\w+ who=kim: Deleted\n", stream.getvalue())


@pytest.mark.parametrize("number, digits", [(0, "0"), (35, "z"), (36, "10"), (23358, "i0u")])
def test_base_36(number, digits):
    assert base36(number) == digits
    assert int(digits, 36) == number


def test_times_are_utc_with_milliseconds():
    assert timestamp(1795216887.1092) == "2026-11-20T23:21:27.109Z"


def test_a_closed_reader_is_reported_once_and_fails_no_caller():
    program = """
        import sys
        from offsider.config.config import Config
        from offsider.logs.setup import logger, setup_logging
        setup_logging(Config().log)
        logger.info("one")
        sys.stdin.readline()
        for _ in range(3):
            logger.info("two")
            print("three", flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout.readline().endswith("one\n")
        process.stdout.close()
        process.stdin.write("go on\n")
        process.stdin.close()
        output = process.stderr.read()
    assert output == "offsider: the reader of the log has exited: no more lines are written\n"
    assert process.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux")
def test_a_full_disk_is_reported_once_and_fails_no_caller(capsys):
    full = Path("/dev/full").open("w")  # noqa: SIM115  # to close it fails, too
    handler = setup_logging(Config().log, full)
    for _ in range(3):
        logger.warning("x")
    assert capsys.readouterr().err == (
        "offsider: cannot write the log: No space left on device; the worker continues without these lines\n"
    )
    logger.removeHandler(handler)
    with suppress(OSError):
        full.close()


# ------------------------------------------------------------------- the short way of the job log


class Records(logging.Handler):
    """A handler of an application: it wants records."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def emit(self, record):
        self.seen.append((record.levelname, record.getMessage(), record.fields))


def flushed(stream):
    for handler in logger.handlers:
        handler.flush()
    return stream.getvalue()


def without_time(text):
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "now", text)


@pytest.mark.parametrize("style", ["text", "json"])
def test_the_fast_path_writes_the_same_line(style):
    lines = []
    for way in (write_info, lambda message, fields: logger.info(message, extra={"fields": fields})):
        stream = log_to(style, stream=Terminal())
        with running(job(rows=7, tenant="a\nb")):
            way("done", {"elapsed": 0.25})
        lines.append(without_time(flushed(stream)))
    assert lines[0] == lines[1]
    assert "rows" in lines[0]
    assert lines[0].count("\n") == 1


def test_a_line_is_written_soon_without_a_flush(monkeypatch):
    stream, soon = log_to("text"), threading.Event()
    monkeypatch.setattr(output, "time", SimpleNamespace(sleep=lambda _: soon.wait(60)))
    write_info("done", {})
    assert stream.getvalue() == "", "lines are written together"
    soon.set()
    wait_for(lambda: "done" in stream.getvalue())


def test_lines_of_both_paths_keep_their_order():
    stream = log_to("text")
    write_info("first", {})
    logger.warning("second")
    write_info("third", {})
    logger.error("fourth")
    assert re.findall(r": (\w+)$", flushed(stream), re.MULTILINE) == ["first", "second", "third", "fourth"]


@pytest.mark.parametrize(
    "of_log, of_job, of_handler, written",
    [("warn", None, "info", False), ("warn", "info", "info", True), ("info", None, "error", False)],
    ids=["of the log", "of the job", "of the handler"],
)
def test_the_fast_path_respects_each_level(of_log, of_job, of_handler, written):
    stream = log_to("text", level=of_log)
    logger.handlers[0].setLevel(of_handler.upper())
    with job_level(of_job):
        write_info("done", {})
    assert ("done" in flushed(stream)) is written


@pytest.mark.parametrize("beside_ours", [True, False])
def test_a_handler_of_the_application_receives_records(beside_ours):
    stream, own = log_to("text"), Records()
    logger.handlers[:] = [*logger.handlers, own] if beside_ours else [own]
    write_info("done", {"elapsed": 1})
    assert own.seen == [("INFO", "done", {"elapsed": 1})]
    assert ("done" in stream.getvalue()) is beside_ours, "ours writes at once"


def test_an_application_that_lets_records_propagate_sees_them(caplog):
    log_to("text")
    logger.propagate = True
    with caplog.at_level(logging.INFO):
        write_info("done", {"elapsed": 1})
    assert [record.getMessage() for record in caplog.records] == ["done"]


@pytest.mark.parametrize("where", ["logger", "handler"])
def test_a_filter_of_the_application_sees_records(where):
    stream = log_to("text")
    seen = []

    def only_second(record):
        seen.append(record.getMessage())
        return record.getMessage() == "second"

    place = logger if where == "logger" else logger.handlers[0]
    place.addFilter(only_second)
    try:
        write_info("first", {})
        write_info("second", {})
    finally:
        place.removeFilter(only_second)
    assert seen == ["first", "second"]
    assert "first" not in stream.getvalue()
    assert "second" in stream.getvalue()


def test_a_formatter_of_the_application_sees_records_and_stays_at_a_second_setup():
    """The command line sets the log up before the application is loaded, and once more behind it."""
    stream = log_to("text")
    logger.handlers[0].setFormatter(logging.Formatter("mine: %(message)s"))
    write_info("done", {})
    assert stream.getvalue() == "mine: done\n"
    stream = log_to("json")
    logger.info("x")
    assert stream.getvalue() == "mine: x\n"


def test_a_record_factory_of_the_application_is_asked():
    stream = log_to("text")
    before = logging.getLogRecordFactory()
    made = []

    def factory(*args, **kwargs):
        made.append(args)
        return before(*args, **kwargs)

    logging.setLogRecordFactory(factory)
    try:
        write_info("done", {})
    finally:
        logging.setLogRecordFactory(before)
    assert len(made) == 1
    assert "done" in stream.getvalue()


def test_a_stream_that_breaks_ends_neither_the_job_nor_the_writer(capsys):
    class Broken(io.StringIO):
        broken = True

        def write(self, text):
            if self.broken:
                raise OSError(28, "No space left on device")
            return super().write(text)

    stream = Broken()
    log_to("text", stream=stream)
    write_info("lost", {})
    wait_for(lambda: "No space left" in capsys.readouterr().err)
    stream.broken = False
    write_info("found", {})
    wait_for(lambda: "found" in stream.getvalue())
    assert "lost" not in stream.getvalue()


@pytest.mark.parametrize("style", ["text", "json"])
def test_no_text_of_a_job_makes_a_line_longer_than_its_bound(style):
    stream, text = log_to(style), "H" * 1_000_000
    job = JobContext({"class": "J", "jid": "a" * 24, "args": []}, "default")
    job.log["x"] = text
    with running(job):
        write_info("done", {"duration": 1.0})
        logger.warning("said %s", text)
    for handler in logger.handlers:
        handler.close()
    lines = stream.getvalue().splitlines()
    assert ["done" in lines[0], "said HHH" in lines[1], len(lines)] == [True, True, 2]
    assert max(map(len, lines)) < 70_000
