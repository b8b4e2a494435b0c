"""The log: who writes where, what a line tells, and that no value can forge one."""

from __future__ import annotations

import io
import json
import logging
import re
import subprocess
import sys
import textwrap

import pytest

from offsider.wiring.config import Config
from offsider.wiring.context import JobContext, running
from offsider.wiring.logs import (
    base36,
    describe,
    job_level,
    log_fields,
    logger,
    setup_logging,
    thread_id,
    timestamp,
)


@pytest.fixture(autouse=True)
def untouched_logger():
    before = (logger.handlers[:], logger.level, logger.propagate)
    yield
    logger.handlers[:], logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


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
    return JobContext({"class": "Hard", "args": [], "jid": "ab12", "tags": ["x", "y"]}, "default", log=log)


def test_the_library_installs_no_handler():
    assert logger.name == "offsider"
    assert logger.handlers == []


def test_a_plain_line():
    stream = log_to("plain")
    logger.info("hello %s", "world")
    assert re.fullmatch(
        r"INFO  \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z pid=\d+ tid=[0-9a-z]+: hello world\n", stream.getvalue()
    )


def test_a_line_of_a_job_tells_which_and_what_it_added():
    stream = log_to("without_timestamp")
    with running(job(rows=7)), log_fields(request="r1"):
        logger.warning("slow", extra={"fields": {"elapsed": 0.5004}})
    assert re.fullmatch(
        r"WARN  pid=\d+ tid=\w+ request=r1 jid=ab12 class=Hard tags=x,y rows=7 elapsed=0\.5: slow\n",
        stream.getvalue(),
    )


def test_a_job_without_tags_shows_none():
    stream = log_to("without_timestamp")
    with running(JobContext({"class": "Hard", "args": [], "jid": "ab12"}, "default")):
        logger.info("x")
    assert stream.getvalue().endswith(" jid=ab12 class=Hard: x\n")


def test_a_logger_class_of_the_application_is_left_alone():
    text = (
        "import logging\n"
        "class Own(logging.Logger): pass\n"
        "logging.setLoggerClass(Own)\n"
        "from offsider.wiring.logs import logger\n"
        "assert type(logger) is Own"
    )
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60)


def test_a_traceback_that_cannot_be_formatted_is_said_to_be_so(monkeypatch):
    def fail(error):
        raise RecursionError

    stream = log_to("without_timestamp")
    monkeypatch.setattr("traceback.format_exception", fail)
    logger.error("x", exc_info=ValueError("boom"))
    assert "(its traceback cannot be shown: RecursionError)" in stream.getvalue()


def test_json_is_one_object_a_line():
    stream = log_to("json")
    with running(job()):
        logger.critical("two\nlines", extra={"fields": {"what": object}})
    [line] = stream.getvalue().splitlines()
    entry = json.loads(line)
    assert list(entry) == ["ts", "pid", "tid", "lvl", "msg", "ctx"]
    assert (entry["lvl"], entry["msg"]) == ("FATAL", "two\nlines")
    assert entry["ctx"] == {"jid": "ab12", "class": "Hard", "tags": "x,y", "what": "<class 'object'>"}
    assert entry["tid"] == thread_id()


def test_json_keeps_a_traceback_apart():
    stream = log_to("json")
    logger.error("failed", exc_info=ValueError("boom"))
    assert json.loads(stream.getvalue())["err"] == "ValueError: boom"


def test_colour_is_for_terminals(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = log_to("pretty", stream=Terminal())
    logger.error("red")
    assert terminal.getvalue().startswith("\x1b[31mERROR\x1b[0m ")
    pipe = log_to("pretty")
    logger.error("plain")
    assert pipe.getvalue().startswith("ERROR ")
    monkeypatch.setenv("NO_COLOR", "1")
    dull = log_to("pretty", stream=Terminal())
    logger.error("plain")
    assert dull.getvalue().startswith("ERROR ")


def test_no_value_can_forge_a_line_or_reach_the_terminal():
    stream = log_to("without_timestamp")
    evil = "x\nERROR pid=1 tid=1: forged \x1b[2J\r\u2028"
    with running(job(name=evil)):
        logger.info("message %s", evil)
    first, second = stream.getvalue().splitlines()
    assert "name=x\\nERROR" in first
    assert "\\x1b[2J\\r\\u2028" in first
    assert second.startswith("  ERROR pid=1")
    assert "\x1b" not in stream.getvalue()


def test_a_traceback_is_set_in():
    stream = log_to("without_timestamp")
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


def test_things_whose_str_raises_do_not_break_a_line():
    stream = log_to("without_timestamp")
    with log_fields(thing=Nasty()):
        logger.info("about %s", Nasty(), exc_info=Nasty())
    text = stream.getvalue()
    assert "thing=<Nasty>" in text
    assert "its arguments cannot be shown" in text


def test_describing_an_error():
    assert describe(ValueError("boom")) == "ValueError: boom"
    assert describe(ValueError()) == "ValueError"
    assert describe(Nasty()) == "Nasty: (its message cannot be shown: str() raised RuntimeError)"


def test_a_second_setup_replaces_the_first():
    first, second = log_to("plain"), log_to("plain")
    logger.info("x")
    assert first.getvalue() == ""
    assert second.getvalue().count("x\n") == 1
    assert logger.propagate is False


def test_the_level_of_the_settings():
    stream = log_to("plain", "error")
    logger.warning("no")
    logger.error("yes")
    assert stream.getvalue().count("\n") == 1


@pytest.mark.parametrize(
    "level, lines", [("debug", ["d", "i", "w"]), ("warning", ["w"]), (None, ["i", "w"]), ("loud", ["i", "w"])]
)
def test_a_job_has_its_own_level(level, lines):
    stream = log_to("without_timestamp")
    with job_level(level):
        logger.debug("d")
        logger.info("i")
        logger.warning("w")
    assert [line.rpartition(" ")[2] for line in stream.getvalue().splitlines()] == lines
    logger.debug("d")
    assert stream.getvalue().count("\n") == len(lines)


def test_disabled_logging_stays_disabled_for_jobs():
    stream = log_to("plain")
    logging.disable(logging.CRITICAL)
    try:
        with job_level("debug"):
            logger.error("x")
    finally:
        logging.disable(logging.NOTSET)
    assert stream.getvalue() == ""


@pytest.mark.parametrize("number, digits", [(0, "0"), (35, "z"), (36, "10"), (23358, "i0u")])
def test_base_36(number, digits):
    assert base36(number) == digits
    assert int(digits, 36) == number


def test_times_are_utc_with_milliseconds():
    assert timestamp(1795216887.1092) == "2026-11-20T23:21:27.109Z"


def test_when_nobody_reads_it_any_more_it_says_so_once_and_fails_nobody():
    program = """
        import sys
        from offsider.wiring.config import Config
        from offsider.wiring.logs import logger, setup_logging
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
        said = process.stderr.read()
    assert said == "offsider: nobody reads the log any more: it is written no further\n"
    assert process.returncode == 0


def test_another_error_of_the_stream_is_reported_as_ever(capsys):
    stream = log_to("plain")
    stream.close()
    logger.info("x")
    assert "--- Logging error ---" in capsys.readouterr().err
