"""The logger ``offsider``, the job fields of each line, and five line formats.

The library installs no handler: inside an application, the application's logging configuration applies. The command
line calls `setup_logging`.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import lru_cache
from itertools import groupby
from logging import LogRecord
from pathlib import Path
from types import MappingProxyType
from typing import TextIO, TypeAlias

from offsider.config.settings import LogSection
from offsider.core.error_text import (
    CUT,
    MOST_LOGGED_CHARACTERS,
    MOST_MESSAGE_CHARACTERS,
    last_characters,
    shown,
    traceback_of,
    traceback_parts,
)
from offsider.core.wording import counted
from offsider.logs.application import application_fields, is_ours, is_written_by_application
from offsider.logs.line_buffer import LineBuffer
from offsider.logs.outlet import Outlet
from offsider.logs.print_order import flush_before_writes, plain_write
from offsider.logs.structured import about_error, bounded, is_about, line_fields, line_of
from offsider.runtime.context import current_job_or_none

Fields: TypeAlias = Mapping[str, object]

_job_level: ContextVar[int | None] = ContextVar("offsider_job_level", default=None)


NO_FIELDS: Fields = MappingProxyType({})
#: Attribute of a record whose message repeats its fields, for formatters of applications: the message without them.
WITHOUT_FIELDS = "offsider_message"

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.CRITICAL,
    "critical": logging.CRITICAL,
    "unknown": logging.CRITICAL,  # Ruby's highest level
}
# Sidekiq's names for Python's levels.
_WORDS = {"WARNING": "WARN", "CRITICAL": "FATAL"}
_COLOURS = {"DEBUG": "36", "INFO": "32", "WARN": "33", "ERROR": "31", "FATAL": "1;31"}
#: A frame of this package; the frames of an exception group are indented.
_OUR_FRAME = re.compile(rf'[ |]*File "{re.escape(str(Path(__file__).parents[1]))}[/\\]')
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CONTROL_BUT_NEWLINE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class OffsiderLogger(logging.Logger):
    """A logger whose records no configuration drops by omission.

    ``disable_existing_loggers`` has no effect on it, and `logging.disable` only below `kept_level`. If no logger on its
    path has a handler, it writes to standard error: logging itself would drop the records below WARNING.
    """

    kept_level = logging.WARNING

    @property
    def disabled(self) -> bool:
        """Always False; `dictConfig` sets it for all loggers that exist already and that it does not name."""
        return False

    @disabled.setter
    def disabled(self, value: bool) -> None: ...  # pyright: ignore[reportIncompatibleVariableOverride]

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802  # logging's name
        if level >= self.kept_level:
            return level >= self.getEffectiveLevel()
        return super().isEnabledFor(level)

    def handle(self, record: LogRecord) -> None:
        # The message is ours, its arguments are data from the server or the application: no text of them is a line.
        if isinstance(record.args, tuple):
            record.args = tuple(_one_line(each) if isinstance(each, str) else each for each in record.args)
        super().handle(record)

    def callHandlers(self, record: LogRecord) -> None:  # noqa: N802  # logging's name
        if self.hasHandlers():
            super().callHandlers(record)
        else:
            _last_resort.handle(record)


class JobAwareLogger(OffsiderLogger):
    """A logger whose level a running job can set for its own lines (option ``log_level``)."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802  # logging's name
        wanted = _job_level.get()
        if wanted is None:
            return super().isEnabledFor(level)
        return level >= wanted and (level >= self.kept_level or level > self.manager.disable)


class AuditLogger(OffsiderLogger):
    """A logger with the level INFO unless it has a level of its own: it does not inherit one."""

    kept_level = logging.INFO

    def getEffectiveLevel(self) -> int:  # noqa: N802  # logging's name
        return self.level or logging.INFO


def _make_logger(name: str, kind: type[OffsiderLogger]) -> logging.Logger:
    """Return a logger of this kind. An application may have configured it already, so it is not replaced."""
    made = logging.getLogger(name)
    own = type(made)
    made.__class__ = kind if own is logging.Logger else type(own.__name__, (kind, own), {})
    return made


logger = _make_logger("offsider", JobAwareLogger)
web_logger = _make_logger("offsider.web", AuditLogger)


@contextmanager
def job_level(name: str | None) -> Generator[None, None, None]:
    """Set the log level of a job within the block; None and unknown names change nothing."""
    level = LEVELS.get((name or "").lower())
    if level is None:
        yield
        return
    token = _job_level.set(level)
    try:
        yield
    finally:
        _job_level.reset(token)


def fields_of(record: LogRecord) -> Fields:
    """Return the fields of a record: ``extra={"fields": …}``."""
    fields: Fields = getattr(record, "fields", NO_FIELDS)
    return fields


def _short_context(own: Fields) -> dict[str, object]:
    """Return all fields of a line with Sidekiq's names."""
    fields: dict[str, object] = {}
    job = current_job_or_none()
    if job is not None and (("jid" not in own and "class" not in own) or is_about(job, own)):
        payload = job.payload  # read here, and not by properties: each of them would cost every line a call
        fields["jid"] = payload.get("jid", "")
        fields["class"] = job.shown_name if "wrapped" in payload else payload.get("class", "")
        tags = payload.get("tags")
        if tags:
            fields["tags"] = ",".join(map(str, tags))
        if job.log:
            fields |= job.log
    fields |= own
    return fields


class _Thread(threading.local):
    pid = 0
    number = ""


_thread = _Thread()


def thread_id() -> str:
    """Return the current thread's number in base 36, as in log lines and the web page's busy table."""
    if _thread.pid != os.getpid():  # a thread's number changes when the process forks
        _thread.number = base36(threading.get_native_id())
        _thread.pid = os.getpid()
    return _thread.number


def base36(number: int) -> str:
    """Format a number >= 0 with the digits 0-9 and a-z."""
    digits = ""
    while True:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
        if number == 0:
            return digits


#: Stands for buffered lines in the error report if they cannot be written.
_LINES = LogRecord("offsider", logging.INFO, __file__, 0, "lines of the job log", (), None)


class LineFormatter(logging.Formatter):
    """Base class of formatters: formats a record, or its parts, as a line."""

    def format(self, record: LogRecord) -> str:
        own = fields_of(record) if is_ours(record) else application_fields(record)
        message: str = getattr(record, WITHOUT_FIELDS, "") or _message(record)
        return self.line(_word(record), record.created, own, message, record)

    def line(self, word: str, created: float, own: Fields, message: str, record: LogRecord | None = None) -> str:
        """Format one line, without its newline.

        Args:
            word: the level under Sidekiq's name.
            created: epoch seconds.
            own: fields of this line; each format adds those of the context.
            record: can contain a traceback.
        """
        raise NotImplementedError


class Plain(LineFormatter):
    """``LEVEL time pid=… tid=… field=value: message``, with an indented traceback below."""

    def line(self, word: str, created: float, own: Fields, message: str, record: LogRecord | None = None) -> str:
        head = "".join([f" {name}={_field(value)}" for name, value in _short_context(own).items()])
        trace = "" if record is None else _trace(record, folded=getattr(record, "folded", False))
        return (
            f"{self.level(word)} {self.when(created)}pid={os.getpid()} tid={thread_id()}{head}: "
            f"{_indented(message)}{trace}"
        )

    def level(self, word: str) -> str:
        return f"{word:<5}"

    def when(self, created: float) -> str:
        return f"{timestamp(created)} "


class Pretty(Plain):
    """`Plain` with a colored level."""

    def level(self, word: str) -> str:
        return f"\x1b[{_COLOURS.get(word, '0')}m{super().level(word)}\x1b[0m"


class WithoutTimestamp(Plain):
    """`Plain` for log collectors that add the time themselves."""

    def when(self, created: float) -> str:  # noqa: ARG002  # overrides a method that uses it
        return ""


class Json(LineFormatter):
    """One JSON object per line: ``ts pid tid lvl msg ctx``, and ``err`` for a traceback."""

    def line(self, word: str, created: float, own: Fields, message: str, record: LogRecord | None = None) -> str:
        fields = _short_context(own)
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
            line = json.dumps(entry, default=shown, allow_nan=False)
            if len(line) <= MOST_LOGGED_CHARACTERS:
                return line
        except (ValueError, TypeError, RecursionError):  # NaN, a cycle, keys that are no text
            pass
        return json.dumps({**entry, "ctx": bounded(fields, 2_000)})


class Structured(LineFormatter):
    """One flat JSON object per line, with GitLab's names: ``time severity pid tid message class jid queue …``."""

    def line(self, word: str, created: float, own: Fields, message: str, record: LogRecord | None = None) -> str:
        ours: dict[str, object] = {
            "time": timestamp(created),
            "severity": word,
            "pid": os.getpid(),
            "tid": thread_id(),
            "message": message,
        }
        entry = {**ours, **line_fields(own), **ours}  # first, and never replaced
        if record is not None and record.exc_info and record.exc_info[1] is not None:
            entry.update(about_error(record.exc_info[1]))
        return line_of(entry)


FORMATTERS: Mapping[str, Callable[[], LineFormatter]] = {
    "pretty": Pretty,
    "plain": Plain,
    "without_timestamp": WithoutTimestamp,
    "json": Json,
    "structured": Structured,
}


class _LastResort(logging.StreamHandler[TextIO]):
    """Writes to the current standard error."""

    def emit(self, record: LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


_last_resort = _LastResort()
_last_resort.setFormatter(Plain())


class OffsiderHandler(logging.StreamHandler[TextIO]):
    """The handler that `setup_logging` installs; a second call replaces it."""

    def __init__(self, stream: TextIO, lines: LineFormatter) -> None:
        super().__init__(stream)
        self.setFormatter(lines)
        self._lines = lines
        self._outlet = Outlet(stream, self._about_dropped)
        self._buffer = LineBuffer(self._write_text, self.lock or nullcontext())
        self._reported: set[str] = set()

    def flush_before_prints(self) -> None:
        """Write buffered lines before a job writes to the stream of the log or to standard error."""
        for stream in (self.stream, sys.stderr):
            flush_before_writes(stream, self._buffer.flush)

    def emit(self, record: LogRecord) -> None:
        """Write a record immediately, after the buffered lines."""
        if is_written_by_application(record, self):
            return
        self._buffer.flush()
        try:
            self._outlet.write(self.format(record) + self.terminator)
        except RecursionError:
            raise
        except Exception:  # noqa: BLE001  # as logging does: a log that cannot be written ends nothing
            self.handleError(record)

    def flush(self) -> None:
        """Write the lines that a blocked reader left no room for, if there is room now."""
        with self.lock or nullcontext(), suppress(OSError):
            self._outlet.drain()

    def close(self) -> None:
        self._buffer.flush()
        self.flush()
        self._outlet.close()
        super().close()

    def _about_dropped(self, lines: int) -> str:
        text = f"{counted(lines, 'line')} of the log dropped: the reader was blocked"
        return self._lines.line("WARN", time.time(), {"dropped_lines": lines}, text) + self.terminator

    @property
    def is_formatted_by_application(self) -> bool:
        """Whether the application has set another formatter."""
        return self.formatter is not self._lines

    def takes_lines(self) -> bool:
        """Whether lines at INFO can skip the record: no filter or formatter uses it."""
        return self.formatter is self._lines and not self.filters and self.level <= logging.INFO

    def put_line(self, message: str, own: Fields) -> None:
        """Write a line at INFO, within 20 ms."""
        self._buffer.put(self._lines.line("INFO", time.time(), own, message) + self.terminator)

    def _write_text(self, text: str) -> None:
        try:
            self._outlet.write(text)
        except Exception:  # noqa: BLE001  # as logging does: a log that cannot be written ends nothing
            self.handleError(_LINES)

    def handleError(self, record: LogRecord) -> None:  # noqa: N802  # logging's name
        """Report once that lines cannot be written, and continue working.

        If the reader is gone (``offsider worker | head``), discard all further output.
        """
        error = sys.exception()
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        if not isinstance(error, BrokenPipeError):
            self._report_once(f"cannot write the log: {error.strerror}; the worker continues without these lines")
            return
        with suppress(OSError, ValueError):
            # From now on all output, including that of jobs, is discarded instead of failing.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
            os.close(nowhere)
            self._outlet.close()
            self._outlet = Outlet(self.stream, self._about_dropped)
        self._report_once("the reader of the log has exited: no more lines are written")

    def _report_once(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            with suppress(OSError, ValueError):
                plain_write(sys.stderr)(f"offsider: {text}\n")


def setup_logging(settings: LogSection, stream: TextIO | None = None) -> OffsiderHandler | None:
    """Send the log of ``offsider`` to ``stream`` (default: standard output) in the format and level of ``[log]``.

    Keeps a formatter that the application has set on our handler. If the application has given the logger handlers of
    its own instead, the logger remains as it is, and the result is None. Colors appear only on a terminal, and without
    ``NO_COLOR``.
    """
    earlier = [old for old in logger.handlers if isinstance(old, OffsiderHandler)]
    if not earlier and any(not isinstance(own, logging.NullHandler) for own in logger.handlers):
        return None
    target = stream if stream is not None else sys.stdout
    style = settings.format
    if style == "pretty" and not _wants_colour(target):
        style = "plain"
    handler = OffsiderHandler(target, FORMATTERS[style]())
    for old in earlier:
        if old.is_formatted_by_application:
            handler.setFormatter(old.formatter)
        logger.removeHandler(old)
        logging.getLogger().removeHandler(old)
        old.close()
    handler.flush_before_prints()
    logger.addHandler(handler)
    logger.setLevel(LEVELS[settings.level])
    # Otherwise an application that configured the root logger would log every line twice.
    logger.propagate = False
    return handler


def write_info(message: str, fields: Fields) -> None:
    """Log a line at INFO, in the fastest way with the same output.

    If our handler is the only one and there are no filters, the line is written without a record, within 20 ms.
    Otherwise it is an ordinary record of the logger ``offsider`` with ``extra={"fields": …}``.
    """
    handlers = logger.handlers
    if len(handlers) == 1 and not logger.filters and not logger.propagate:
        handler = handlers[0]
        if type(handler) is OffsiderHandler and handler.takes_lines() and logging.getLogRecordFactory() is LogRecord:
            if logger.isEnabledFor(logging.INFO):
                handler.put_line(message, fields)
            return
    logger.info(message, extra={"fields": fields})


_latest: tuple[int, str] = (0, "1970-01-01T00:00:00")


def timestamp(seconds: float) -> str:
    """Format epoch seconds as UTC with milliseconds: ``2026-11-20T23:21:27.109Z``."""
    global _latest  # noqa: PLW0603  # the text of the last second: most lines share it
    milliseconds = int(seconds * 1000)
    whole, text = _latest
    if whole != milliseconds // 1000:
        whole = milliseconds // 1000
        text = _second(whole)
        _latest = whole, text
    return f"{text}.{milliseconds % 1000:03d}Z"


@lru_cache(maxsize=64)  # most other times are of a few seconds
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _wants_colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR")


def _word(record: LogRecord) -> str:
    return _WORDS.get(record.levelname, record.levelname)


def _message(record: LogRecord) -> str:
    try:
        message = record.getMessage()
    except BaseException as error:  # noqa: BLE001  # str() of an argument can raise anything, also SystemExit
        return f"{shown(record.msg)} (its arguments cannot be shown: {type(error).__name__})"
    return message if len(message) <= MOST_LOGGED_CHARACTERS else message[: MOST_LOGGED_CHARACTERS - 1] + CUT


def _trace(record: LogRecord, *, indent: str = "  ", folded: bool = False) -> str:
    if not record.exc_info or record.exc_info[1] is None:
        return ""
    parts = traceback_parts(record.exc_info[1])
    text = last_characters("".join(_folded(parts) if folded else parts)).rstrip("\n")
    return f"\n{indent}{_indented(text, indent)}"


def _folded(parts: Sequence[str]) -> Iterator[str]:
    """Yield the parts of a traceback, with one line for each group of our own frames."""
    for ours, group in groupby(parts, lambda part: _OUR_FRAME.match(part) is not None):
        if ours:
            yield f"  … {counted(len([*group]), 'frame')} of offsider\n"
        else:
            yield from group


def _indented(text: str, indent: str = "  ") -> str:
    # Indent continuation lines, so that no text can look like a log line.
    if text.isascii() and text.isprintable():
        return text
    return _CONTROL_BUT_NEWLINE.sub(_escape, text).replace("\n", f"\n{indent}")


def _field(value: object) -> str:
    if type(value) is str and value.isascii() and value.isprintable():
        return value[:MOST_MESSAGE_CHARACTERS]
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    return _one_line(shown(value))


def _one_line(text: str) -> str:
    return text if text.isascii() and text.isprintable() else _CONTROL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


class JobFilter(logging.Filter):
    """Add the running job's fields to each record, with the field names of the structured log.

    A worker adds it to all handlers of its application. Formats can contain ``%(jid)s``, ``%(class)s`` and
    ``%(queue)s``, which are empty outside of jobs. JSON formatters that write all attributes of a record also write the
    other fields: tags, ``correlation_id``, ``meta.*`` and those of ``current_job().log``. Attributes that a record has
    already are kept.
    """

    def filter(self, record: LogRecord) -> bool:
        """Add the fields, and to our own records the bounded text of a traceback; every record passes."""
        if record.name.partition(".")[0] == logger.name and record.exc_info and record.exc_info[1] is not None:
            record.exc_text = record.exc_text or traceback_of(record.exc_info[1], MOST_LOGGED_CHARACTERS).rstrip("\n")
        fields = line_fields(fields_of(record) if is_ours(record) else NO_FIELDS)
        for name, value in ({"jid": "", "class": "", "queue": ""} | fields).items():
            vars(record).setdefault(name, _one_line(value) if isinstance(value, str) else value)
        return True


def filter_handlers() -> None:
    """Add the filter to every handler of every logger, except the worker's own handler.

    Not a record factory: with one, a record with ``extra={"queue": ...}`` of the application would raise.
    """
    named = [each for each in list(logging.root.manager.loggerDict.values()) if isinstance(each, logging.Logger)]
    for handler in {handler for each in (logging.root, *named) for handler in each.handlers}:
        if not isinstance(handler, OffsiderHandler) and not any(isinstance(one, JobFilter) for one in handler.filters):
            handler.addFilter(JobFilter())
