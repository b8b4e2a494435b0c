"""The log: the logger ``offsider``, what each line tells about the running job, and five ways to write a line.

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
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import lru_cache
from typing import TextIO

from offsider.wiring.context import current_job_or_none
from offsider.wiring.line_buffer import LineBuffer
from offsider.wiring.settings import LogSection
from offsider.wiring.structured_log import about_error, about_here, bounded, line_of, shown, without_payloads

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


def context_of(record: logging.LogRecord | None) -> dict[str, object]:
    """The fields of a line: those of `log_fields`, the running job's, and the record's own ``extra={"fields": …}``."""
    return {**_context(), **getattr(record, "fields", {})}


def _context() -> dict[str, object]:
    fields = dict(_fields.get())
    job = current_job_or_none()
    if job is not None:
        fields["jid"] = job.jid
        fields["class"] = job.name
        if job.tags:
            fields["tags"] = ",".join(map(str, job.tags))
        if job.log:
            fields |= job.log
    return fields


class _Thread(threading.local):
    pid = 0
    number = ""


_thread = _Thread()


def thread_id() -> str:
    """The current thread's number in base 36, as log lines and the web page's busy table call it."""
    if _thread.pid != os.getpid():  # a thread's number changes when the process forks
        _thread.number = base36(threading.get_native_id())
        _thread.pid = os.getpid()
    return _thread.number


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


#: What stands for the lines of a buffer when they cannot be written.
_LINES = logging.LogRecord("offsider", logging.INFO, __file__, 0, "lines of the job log", (), None)


class LineFormatter(logging.Formatter):
    """Writes a record, or the parts of one, as a line; what the ways to do so have in common."""

    def format(self, record: logging.LogRecord) -> str:
        return self.line(_word(record), record.created, context_of(record), _message(record), record)

    def line(
        self,
        word: str,
        created: float,
        fields: Mapping[str, object],
        message: str,
        record: logging.LogRecord | None = None,
    ) -> str:
        """One line, without its newline.

        Args:
            word: the level as Sidekiq calls it.
            created: epoch seconds.
            fields: what is told beside the message.
            record: may hold a traceback.
        """
        raise NotImplementedError


class Plain(LineFormatter):
    """``LEVEL time pid=… tid=… field=value: message``, and a traceback indented below."""

    def line(
        self,
        word: str,
        created: float,
        fields: Mapping[str, object],
        message: str,
        record: logging.LogRecord | None = None,
    ) -> str:
        head = "".join([f" {name}={_field(value)}" for name, value in fields.items()])
        trace = "" if record is None else _trace(record)
        return (
            f"{self.level(word)} {self.when(created)}pid={os.getpid()} tid={thread_id()}{head}: "
            f"{_indented(message)}{trace}"
        )

    def level(self, word: str) -> str:
        return f"{word:<5}"

    def when(self, created: float) -> str:
        return f"{timestamp(created)} "


class Pretty(Plain):
    """`Plain` with the level in colour."""

    def level(self, word: str) -> str:
        return f"\x1b[{_COLOURS.get(word, '0')}m{super().level(word)}\x1b[0m"


class WithoutTimestamp(Plain):
    """`Plain` for places that add the time themselves."""

    def when(self, created: float) -> str:  # noqa: ARG002  # overrides one that looks at it
        return ""


class Json(LineFormatter):
    """One JSON object per line: ``ts pid tid lvl msg ctx``, and ``err`` for a traceback."""

    def line(
        self,
        word: str,
        created: float,
        fields: Mapping[str, object],
        message: str,
        record: logging.LogRecord | None = None,
    ) -> str:
        entry: dict[str, object] = {
            "ts": timestamp(created),
            "pid": os.getpid(),
            "tid": thread_id(),
            "lvl": word,
            "msg": message,
            "ctx": fields,
        }
        if record is not None and (trace := _trace(record, indent="")):
            entry["err"] = trace.strip("\n")
        try:
            return json.dumps(entry, default=shown, allow_nan=False)
        except (ValueError, TypeError, RecursionError):  # NaN, a cycle, keys that are no text
            return json.dumps({**entry, "ctx": bounded(fields, 2_000)})


class Structured(LineFormatter):
    """One flat JSON object per line, with GitLab's names: ``time severity pid tid message class jid queue …``.

    Args:
        arguments: tell the arguments of jobs that errors are reported with.
    """

    def __init__(self, *, arguments: bool = False) -> None:
        super().__init__()
        self._arguments = arguments

    def line(
        self,
        word: str,
        created: float,
        fields: Mapping[str, object],
        message: str,
        record: logging.LogRecord | None = None,
    ) -> str:
        ours: dict[str, object] = {
            "time": timestamp(created),
            "severity": word,
            "pid": os.getpid(),
            "tid": thread_id(),
            "message": message,
            **about_here(current_job_or_none()),
        }
        if "job" in fields or "jobstr" in fields:
            fields = without_payloads(fields, arguments=self._arguments)
        entry = {**ours, **fields, **ours}  # ours stand first, and are never replaced
        if record is not None and record.exc_info and record.exc_info[1] is not None:
            entry.update(about_error(record.exc_info[1]))
        return line_of(entry)


FORMATTERS: Mapping[str, Callable[[], LineFormatter]] = {
    "pretty": Pretty,
    "plain": Plain,
    "without_timestamp": WithoutTimestamp,
    "json": Json,
}


class OffsiderHandler(logging.StreamHandler[TextIO]):
    """The handler that `setup_logging` installs; a second call replaces it."""

    def __init__(self, stream: TextIO, lines: LineFormatter) -> None:
        super().__init__(stream)
        self.setFormatter(lines)
        self._lines = lines
        self._buffer = LineBuffer(self._write_text, self.lock or nullcontext())

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record at once, after what was put off before it."""
        self._buffer.flush()
        super().emit(record)

    def close(self) -> None:
        self._buffer.flush()
        super().close()

    def format(self, record: logging.LogRecord) -> str:
        return self._encodable(super().format(record))

    def _encodable(self, text: str) -> str:
        """The text with escapes for what the stream cannot carry: an emoji in ASCII, a lone surrogate in UTF-8."""
        encoding: str = getattr(self.stream, "encoding", None) or "utf-8"
        return text.encode(encoding, "backslashreplace").decode(encoding)

    @property
    def is_formatted_by_application(self) -> bool:
        """Whether somebody has set another formatter."""
        return self.formatter is not self._lines

    def takes_lines(self) -> bool:
        """Whether a line at INFO may come without a record: nobody would look at the record."""
        return self.formatter is self._lines and not self.filters and self.level <= logging.INFO

    def put_line(self, message: str, fields: Mapping[str, object]) -> None:
        """Write a line at INFO, within 20 ms."""
        self._buffer.put(self._lines.line("INFO", time.time(), fields, message) + self.terminator)

    def _write_text(self, text: str) -> None:
        try:
            self.stream.write(self._encodable(text))
            self.flush()
        except Exception:  # noqa: BLE001  # as logging does: a log that cannot be written ends nothing
            self.handleError(_LINES)

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

    The application's own loggers are left alone, and so is a formatter that it has given to our handler. Colours only
    appear on a terminal and without ``NO_COLOR``.
    """
    target = stream if stream is not None else sys.stdout
    style = settings.format
    if style == "pretty" and not _wants_colour(target):
        style = "plain"
    lines = Structured(arguments=settings.arguments) if style == "structured" else FORMATTERS[style]()
    handler = OffsiderHandler(target, lines)
    for old in [old for old in logger.handlers if isinstance(old, OffsiderHandler)]:
        if old.is_formatted_by_application:
            handler.setFormatter(old.formatter)
        logger.removeHandler(old)
        old.close()
    logger.addHandler(handler)
    logger.setLevel(LEVELS[settings.level])
    # Else an application that configured the root logger would see every line twice.
    logger.propagate = False
    return handler


def write_info(message: str, fields: Mapping[str, object]) -> None:
    """Log a line at INFO, by the shortest way that looks the same.

    While our own handler is the only one and nobody filters, the line is written without a record, within 20 ms.
    Otherwise it is an ordinary record of the logger ``offsider`` with ``extra={"fields": …}``.
    """
    handlers = logger.handlers
    if len(handlers) == 1 and not logger.filters and not logger.propagate:
        handler = handlers[0]
        if (
            type(handler) is OffsiderHandler
            and handler.takes_lines()
            and logging.getLogRecordFactory() is logging.LogRecord
        ):
            if logger.isEnabledFor(logging.INFO):
                handler.put_line(message, {**_context(), **fields})
            return
    logger.info(message, extra={"fields": fields})


_latest: tuple[int, str] = (0, "1970-01-01T00:00:00")


def timestamp(seconds: float) -> str:
    """Epoch seconds as UTC with milliseconds: ``2026-11-20T23:21:27.109Z``."""
    global _latest  # noqa: PLW0603  # the text of the last second: most lines are of the same one
    milliseconds = int(seconds * 1000)
    whole, text = _latest
    if whole != milliseconds // 1000:
        whole = milliseconds // 1000
        text = _second(whole)
        _latest = whole, text
    return f"{text}.{milliseconds % 1000:03d}Z"


@lru_cache(maxsize=64)  # and most jobs are of a few
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


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
    if text.isascii() and text.isprintable():
        return text
    return _CONTROL_BUT_NEWLINE.sub(_escape, text).replace("\n", f"\n{indent}")


def _field(value: object) -> str:
    if type(value) is str and value.isascii() and value.isprintable():
        return value
    text = f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else shown(value)
    return _CONTROL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
