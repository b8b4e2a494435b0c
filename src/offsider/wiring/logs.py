"""The log: the logger ``offsider``, what each line tells about the running job, and four ways to write a line.

The library itself installs no handler: inside somebody's application the lines go where that application sends
them. The command line calls `setup_logging`.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TextIO

from offsider.wiring.context import current_job_or_none
from offsider.wiring.settings import LogSection

_job_level: ContextVar[int | None] = ContextVar("offsider_job_level", default=None)


_fields: ContextVar[Mapping[str, object]] = ContextVar("offsider_log_fields", default={})  # noqa: B039  # never changed

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.CRITICAL,
    "critical": logging.CRITICAL,
}
# Sidekiq's words for Python's levels.
_WORDS = {"WARNING": "WARN", "CRITICAL": "FATAL"}
_COLOURS = {"DEBUG": "36", "INFO": "32", "WARN": "33", "ERROR": "31", "FATAL": "1;31"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CONTROL_BUT_NEWLINE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class JobAwareLogger(logging.Logger):
    """A logger whose level the running job may set for its own lines (its option ``log_level``)."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802  # logging's name
        wanted = _job_level.get()
        if wanted is None:
            return super().isEnabledFor(level)
        return level >= wanted and level > self.manager.disable


def _make_logger() -> logging.Logger:
    made = logging.getLogger("offsider")
    if type(made) is logging.Logger:
        # An application may have configured this logger before offsider was imported, so it cannot be made anew.
        made.__class__ = JobAwareLogger
    return made


logger = _make_logger()


@contextmanager
def log_fields(**fields: object) -> Generator[None, None, None]:
    """Add fields to every line that this thread or asyncio task logs in the block."""
    token = _fields.set({**_fields.get(), **fields})
    try:
        yield
    finally:
        _fields.reset(token)


@contextmanager
def job_level(name: str | None) -> Generator[None, None, None]:
    """Let a job log at a level of its own in the block; None, and a name that is no level, change nothing."""
    level = LEVELS.get((name or "").lower())
    if level is None:
        yield
        return
    token = _job_level.set(level)
    try:
        yield
    finally:
        _job_level.reset(token)


def context_of(record: logging.LogRecord) -> dict[str, object]:
    """The fields of a line: those of `log_fields`, the running job's, and the record's own ``extra={"fields": …}``."""
    fields = dict(_fields.get())
    job = current_job_or_none()
    if job is not None:
        fields |= {"jid": job.jid, "class": job.name}
        if job.tags:
            fields["tags"] = ",".join(map(str, job.tags))
        fields |= job.log
    fields |= getattr(record, "fields", {})
    return fields


def thread_id() -> str:
    """The current thread's number in base 36, as log lines and the web page's busy table call it."""
    return base36(threading.get_native_id())


def base36(number: int) -> str:
    """A number >= 0 in the digits 0-9 and a-z."""
    digits = ""
    while True:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
        if number == 0:
            return digits


def describe(error: BaseException) -> str:
    """``ClassName: message``, also for an error whose ``str()`` raises."""
    try:
        text = str(error)
    except Exception as problem:  # noqa: BLE001  # the error's own code may do anything
        text = f"(its message cannot be shown: str() raised {type(problem).__name__})"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class Plain(logging.Formatter):
    """``LEVEL time pid=… tid=… field=value: message``, and a traceback indented below."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {"pid": os.getpid(), "tid": thread_id(), **context_of(record)}
        head = " ".join(f"{name}={_field(value)}" for name, value in fields.items())
        return f"{self.level(record)} {self.when(record)}{head}: {_indented(_message(record))}{_trace(record)}"

    def level(self, record: logging.LogRecord) -> str:
        return f"{_word(record):<5}"

    def when(self, record: logging.LogRecord) -> str:
        return f"{timestamp(record.created)} "


class Pretty(Plain):
    """`Plain` with the level in colour."""

    def level(self, record: logging.LogRecord) -> str:
        return f"\x1b[{_COLOURS.get(_word(record), '0')}m{super().level(record)}\x1b[0m"


class WithoutTimestamp(Plain):
    """`Plain` for places that add the time themselves."""

    def when(self, record: logging.LogRecord) -> str:  # noqa: ARG002  # overrides one that looks at it
        return ""


class Json(logging.Formatter):
    """One JSON object per line: ``ts pid tid lvl msg ctx``, and ``err`` for a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "ts": timestamp(record.created),
            "pid": os.getpid(),
            "tid": thread_id(),
            "lvl": _word(record),
            "msg": _message(record),
            "ctx": context_of(record),
        }
        if trace := _trace(record, indent=""):
            entry["err"] = trace.strip("\n")
        return json.dumps(entry, default=_shown)


FORMATTERS: Mapping[str, Callable[[], logging.Formatter]] = {
    "pretty": Pretty,
    "plain": Plain,
    "without_timestamp": WithoutTimestamp,
    "json": Json,
}


class OffsiderHandler(logging.StreamHandler[TextIO]):
    """The handler that `setup_logging` installs; a second call replaces it."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, with escapes for what the stream cannot carry: an emoji in ASCII, a lone surrogate in UTF-8."""
        encoding: str = getattr(self.stream, "encoding", None) or "utf-8"
        return super().format(record).encode(encoding, "backslashreplace").decode(encoding)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # logging's name
        """Whoever read the lines is gone (``offsider worker | head``): the work goes on, and is told about once."""
        if not isinstance(sys.exception(), BrokenPipeError):
            super().handleError(record)
            return
        with suppress(OSError, ValueError):
            # What is written from now on, by jobs too, goes nowhere instead of failing.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
            os.close(nowhere)
            sys.stderr.write("offsider: nobody reads the log any more: it is written no further\n")


def setup_logging(settings: LogSection, stream: TextIO | None = None) -> logging.Handler:
    """Send the log of ``offsider`` to ``stream`` (default: standard output) in the format and level of ``[log]``.

    The application's own loggers are left alone. Colours only appear on a terminal and without ``NO_COLOR``.
    """
    target = stream if stream is not None else sys.stdout
    style = settings.format
    if style == "pretty" and not _wants_colour(target):
        style = "plain"
    handler = OffsiderHandler(target)
    handler.setFormatter(FORMATTERS[style]())
    for old in [old for old in logger.handlers if isinstance(old, OffsiderHandler)]:
        logger.removeHandler(old)
    logger.addHandler(handler)
    logger.setLevel(LEVELS[settings.level])
    # Else an application that configured the root logger would see every line twice.
    logger.propagate = False
    return handler


def timestamp(seconds: float) -> str:
    """Epoch seconds as UTC with milliseconds: ``2026-11-20T23:21:27.109Z``."""
    milliseconds = int(seconds * 1000)
    moment = time.gmtime(milliseconds // 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', moment)}.{milliseconds % 1000:03d}Z"


def _wants_colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR")


def _word(record: logging.LogRecord) -> str:
    return _WORDS.get(record.levelname, record.levelname)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # noqa: BLE001  # an argument's own str() may do anything
        return f"{record.msg} (its arguments cannot be shown: {type(error).__name__})"


def _trace(record: logging.LogRecord, *, indent: str = "  ") -> str:
    if not record.exc_info or record.exc_info[1] is None:
        return ""
    try:
        text = "".join(traceback.format_exception(record.exc_info[1])).rstrip("\n")
    except Exception as error:  # noqa: BLE001  # formatting calls code of the exception
        text = f"(its traceback cannot be shown: {type(error).__name__})"
    return f"\n{indent}{_indented(text, indent)}"


def _indented(text: str, indent: str = "  ") -> str:
    # Further lines are set in, so that no text can pass itself off as a line of the log.
    return _CONTROL_BUT_NEWLINE.sub(_escape, text).replace("\n", f"\n{indent}")


def _field(value: object) -> str:
    text = f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else _shown(value)
    return _CONTROL.sub(_escape, text)


def _shown(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # a user's object may do anything
        return f"<{type(value).__name__}>"


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
