"""The logger ``offsider``, the fields of each line, the formats ``text`` and ``json``, and the handler of a process.

The library installs no handler: inside an application, the application's logging configuration applies. The command
line calls `setup_logging`.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from itertools import groupby
from logging import LogRecord
from logging.handlers import QueueHandler
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias, cast

from offsider.core.error_text import (
    CUT,
    MAX_LOGGED_CHARACTERS,
    MAX_MESSAGE_CHARACTERS,
    describe,
    last_characters,
    shown,
    traceback_of,
    traceback_parts,
)
from offsider.core.wording import counted
from offsider.logs.output import LineQueue, Output, Writer
from offsider.logs.structured import about_error, is_about, line_fields, line_of
from offsider.runtime.context import current_job_or_none
from offsider.runtime.forks import this_process
from offsider.storage.attempts import LogLine

if TYPE_CHECKING:
    from offsider.config.settings import LogSection

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
_COLORS = {"DEBUG": "36", "INFO": "32", "WARN": "33", "ERROR": "31", "FATAL": "1;31"}
#: A frame of this package; the frames of an exception group are indented.
_OUR_FRAME = re.compile(rf'[ |]*File "{re.escape(str(Path(__file__).parents[1]))}[/\\]')
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CONTROL_BUT_NEWLINE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")
#: Longest wait for a reader that is slow or does not read, at the end of the process.
FLUSH_SECONDS = 1.0
#: Lines of a job that are stored if its run fails, and characters of each.
MAX_JOB_LINES, MAX_JOB_LINE_CHARACTERS = 20, 200
_PLAIN = logging.LogRecord("", logging.INFO, "", 0, "", (), None)
#: Attributes that every record has; others are from ``extra``.
_STANDARD = frozenset({*vars(_PLAIN), "message", "asctime", "taskName"})
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
            fields.update(job.log)
    if own:
        fields.update(own)
    return fields


class _Thread(threading.local):
    number = ""


_thread = _Thread()


def thread_id() -> str:
    """Return the current thread's number in base 36, as in log lines and the web page's busy table."""
    number = _thread.number
    if not number:
        number = _thread.number = base36(threading.get_native_id())
    return number


def base36(number: int) -> str:
    """Format a number >= 0 with the digits 0-9 and a-z."""
    digits = ""
    while True:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
        if number == 0:
            return digits


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


class TextFormatter(LineFormatter):
    """``LEVEL time pid=… tid=… field=value: message``, with an indented traceback below.

    Args:
        colored: whether the level has a color.
    """

    def __init__(self, *, colored: bool = False) -> None:
        super().__init__()
        self._colored = colored

    def line(self, word: str, created: float, own: Fields, message: str, record: LogRecord | None = None) -> str:
        head = ""
        for name, value in _short_context(own).items():  # a comprehension would cost each line a call
            head += f" {name}={_field(value)}"
        trace = "" if record is None else _trace(record, folded=getattr(record, "folded", False))
        level = f"\x1b[{_COLORS.get(word, '0')}m{word:<5}\x1b[0m" if self._colored else f"{word:<5}"
        return (
            f"{level} {timestamp(created)} pid={this_process.pid} tid={thread_id()}{head}: {_indented(message)}{trace}"
        )


class Json(LineFormatter):
    """One flat JSON object per line, with GitLab's names: ``time severity pid tid message class jid queue …``."""

    def line(self, word: str, created: float, own: Fields, message: str, record: LogRecord | None = None) -> str:
        ours: dict[str, object] = {
            "time": timestamp(created),
            "severity": word,
            "pid": this_process.pid,
            "tid": thread_id(),
            "message": message,
        }
        entry = {**ours, **line_fields(own), **ours}  # first, and never replaced
        if record is not None and record.exc_info and record.exc_info[1] is not None:
            entry.update(about_error(record.exc_info[1]))
        return line_of(entry)


class _LastResort(logging.StreamHandler[TextIO]):
    """Writes to the current standard error."""

    def emit(self, record: LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


_last_resort = _LastResort()
_last_resort.setFormatter(TextFormatter())


class OffsiderHandler(QueueHandler):
    """The handler that `setup_logging` installs; a second call replaces it.

    Until a process runs jobs, the thread that logs writes its line, so that no thread disturbs a fork. The first line
    of a job, or a full pipe, starts a `Writer`: from then on lines are queued, and written within 20 ms. If the reader
    is so slow that the queue is full, lines are dropped and counted until there is room again.
    """

    def __init__(self, stream: TextIO, lines: LineFormatter) -> None:
        super().__init__(LineQueue())
        self.stream = stream
        self.setFormatter(lines)
        self._lines = lines
        self._output = Output(stream)
        self._reported: set[str] = set()
        self.forget_queue()

    def forget_queue(self) -> None:
        """Write without a queue again; its lines are left to the thread that writes them, if it is of this process."""
        self._waiting = self.queue = LineQueue()
        self._writer: Writer | None = None
        self._starting = threading.Lock()

    def emit(self, record: LogRecord) -> None:
        if not is_written_by_application(record, self):
            keep_job_line(record)
            super().emit(record)

    def prepare(self, record: LogRecord) -> str:
        return f"{self.format(record)}\n"

    def enqueue(self, record: Any) -> None:  # the text of `prepare`
        """Write lines while this does not block, and queue the others for the writer."""
        rest = self._reporting(self._output.write_now, record) if self._writer is None else record
        if rest:
            self._put(rest)

    def put_line(self, message: str, own: Fields) -> None:
        """Queue a line at INFO, without a record."""
        self._put(f"{self._lines.line('INFO', time.time(), own, message)}\n")

    def _put(self, text: str) -> None:
        if self._writer is None:
            self._start_writer()
        self._waiting.put_nowait(text)

    def _start_writer(self) -> None:
        """Start it once, whichever thread is the first."""
        with self._starting:
            self._writer = self._writer or self._new_writer()

    def _new_writer(self) -> Writer:
        writer = Writer(self._waiting, self._write)
        writer.start()
        return writer

    def flush(self) -> None:
        """Wait until the queued lines are written, for up to a second; not again until the reader has read."""
        if self._writer is not None:
            self._waiting.join(FLUSH_SECONDS)

    def end_writer(self) -> None:
        """Write the queued lines and end the writer, until another line is queued; one that is blocked remains."""
        if self._writer is not None and self._waiting.join(FLUSH_SECONDS):
            self._writer.stop()
            self.forget_queue()

    def close(self) -> None:
        """Write the queued lines and end the writer. Later lines are still written, as `dictConfig` may close us."""
        self.flush()
        if self._writer is not None:
            self._writer.enqueue_sentinel()  # `stop` would wait for a reader that does not read
            self.forget_queue()
        super().close()

    @property
    def is_formatted_by_application(self) -> bool:
        """Whether the application has set another formatter."""
        return self.formatter is not self._lines

    def takes_lines(self) -> bool:
        """Whether lines at INFO can skip the record: no filter or formatter uses it."""
        return self.formatter is self._lines and not self.filters and self.level <= logging.INFO

    def _write(self, text: str) -> None:
        """Write lines, then the number of dropped ones."""
        self._reporting(self._output.write, text)
        if dropped := self._waiting.take_dropped():
            about = f"{counted(dropped, 'line')} of the log dropped: the reader was blocked"
            line = f"{self._lines.line('WARN', time.time(), {'dropped_lines': dropped}, about)}\n"
            self._reporting(self._output.write, line)

    def _reporting(self, write: Callable[[str], str | None], text: str) -> str | None:
        """Call it and report its errors. Never raises: a log that cannot be written ends nothing."""
        try:
            return write(text)
        except BrokenPipeError:  # the reader is gone: ``offsider worker | head``
            with suppress(OSError, ValueError):
                # From now on all output, including that of jobs, is discarded instead of failing.
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self.stream.fileno())
                os.close(nowhere)
            self._report_once("the reader of the log has exited: no more lines are written")
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
            self._report_once(f"cannot write the log: {reason}; the worker continues without these lines")
        return None

    def _report_once(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            with suppress(OSError, ValueError):
                sys.stderr.write(f"offsider: {text}\n")


def flush_log() -> None:
    """Wait until the lines of this process are written."""
    for handler in _our_handlers():
        handler.flush()


def end_writers() -> None:
    """End the threads that write the lines of this process, before a fork."""
    for handler in _our_handlers():
        handler.end_writer()


def _in_child() -> None:
    _thread.number = ""  # a thread's number changes when the process forks
    for handler in _our_handlers():
        handler.forget_queue()


def _our_handlers() -> list[OffsiderHandler]:
    return [handler for handler in logger.handlers if isinstance(handler, OffsiderHandler)]


# `logging.shutdown` misses handlers that were made before a `dictConfig`.
atexit.register(flush_log)
with suppress(AttributeError):  # Windows has no forks
    os.register_at_fork(after_in_child=_in_child)  # the queued lines and the writer are the parent's


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
    handler = OffsiderHandler(
        target, Json() if settings.format == "json" else TextFormatter(colored=_wants_color(target))
    )
    for old in earlier:
        if old.is_formatted_by_application:
            handler.setFormatter(old.formatter)
        logger.removeHandler(old)
        logging.getLogger().removeHandler(old)
        old.close()
    with suppress(AttributeError, ValueError):  # not a text file; closed
        cast("Any", target).reconfigure(line_buffering=True)  # what jobs print appears at once
    logger.addHandler(handler)
    logger.setLevel(LEVELS[settings.level])
    # Otherwise an application that configured the root logger would log every line twice.
    logger.propagate = False
    return handler


def write_info(message: str, fields: Fields) -> None:
    """Log a line at INFO, in the fastest way with the same output."""
    if logger.isEnabledFor(logging.INFO):
        write_enabled(message, fields)


def write_enabled(message: str, fields: Fields) -> None:
    """Log a line at INFO; the caller has checked that the level is enabled.

    If our handler is the only one and there are no filters, the line is written without a record, within 20 ms.
    Otherwise it is an ordinary record of the logger ``offsider`` with ``extra={"fields": …}``.
    """
    handlers = logger.handlers
    if len(handlers) == 1 and not logger.filters and not logger.propagate:
        handler = handlers[0]
        if type(handler) is OffsiderHandler and handler.takes_lines() and logging.getLogRecordFactory() is LogRecord:
            handler.put_line(message, fields)
            return
    logger.info(message, extra={"fields": fields})


_latest: tuple[int, str] = (0, "1970-01-01T00:00:00.000Z")


def timestamp(seconds: float) -> str:
    """Format epoch seconds as UTC with milliseconds: ``2026-11-20T23:21:27.109Z``."""
    global _latest  # noqa: PLW0603  # the text of the last millisecond: a worker with short jobs writes many lines in it
    milliseconds = int(seconds * 1000)
    latest, text = _latest
    if latest != milliseconds:
        text = f"{_second(milliseconds // 1000)}.{milliseconds % 1000:03d}Z"
        _latest = milliseconds, text
    return text


@lru_cache(maxsize=64)  # most times are of a few seconds
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _wants_color(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR")


def _word(record: LogRecord) -> str:
    return _WORDS.get(record.levelname, record.levelname)


def _message(record: LogRecord) -> str:
    try:
        message = record.getMessage()
    except BaseException as error:  # noqa: BLE001  # str() of an argument can raise anything, also SystemExit
        return f"{shown(record.msg)} (its arguments cannot be shown: {type(error).__name__})"
    return message if len(message) <= MAX_LOGGED_CHARACTERS else message[: MAX_LOGGED_CHARACTERS - 1] + CUT


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
        return value[:MAX_MESSAGE_CHARACTERS]
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    return _one_line(shown(value))


def _one_line(text: str) -> str:
    return text if text.isascii() and text.isprintable() else _CONTROL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


class JobFieldsFilter(logging.Filter):
    """Add the running job's fields to each record, with the field names of the structured log.

    A worker adds it to all handlers of its application. Formats can contain ``%(jid)s``, ``%(class)s`` and
    ``%(queue)s``, which are empty outside of jobs. JSON formatters that write all attributes of a record also write the
    other fields: tags, ``correlation_id``, ``meta.*`` and those of ``current_job().log``. Attributes that a record has
    already are kept.
    """

    def filter(self, record: LogRecord) -> bool:
        """Add the fields, and to our own records the bounded text of a traceback; every record passes."""
        keep_job_line(record)
        if record.name.partition(".")[0] == logger.name and record.exc_info and record.exc_info[1] is not None:
            record.exc_text = record.exc_text or traceback_of(record.exc_info[1], MAX_LOGGED_CHARACTERS).rstrip("\n")
        fields = line_fields(fields_of(record) if is_ours(record) else NO_FIELDS)
        for name, value in ({"jid": "", "class": "", "queue": ""} | fields).items():
            vars(record).setdefault(name, _one_line(value) if isinstance(value, str) else value)
        return True


def keep_job_line(record: logging.LogRecord) -> None:
    """Keep a line of the application for the record of its job's run, in case that fails."""
    job = current_job_or_none()
    if job is None or is_ours(record):
        return
    text = _message(record)
    if record.exc_info and record.exc_info[1] is not None:
        text += f" ({describe(record.exc_info[1])})"
    line = LogLine(record.created, _word(record), _one_line(text[:MAX_JOB_LINE_CHARACTERS]))
    if job.log_lines is None:
        job.log_lines = deque(maxlen=MAX_JOB_LINES)
    if not job.log_lines or job.log_lines[-1] != line:  # each handler gets the record
        job.log_lines.append(line)


def filter_handlers() -> None:
    """Add the filter to every handler of every logger, except the worker's own handler.

    Not a record factory: with one, a record with ``extra={"queue": ...}`` of the application would raise.
    """
    named = [each for each in list(logging.root.manager.loggerDict.values()) if isinstance(each, logging.Logger)]
    for handler in {handler for each in (logging.root, *named) for handler in each.handlers}:
        if not isinstance(handler, OffsiderHandler) and not any(
            isinstance(one, JobFieldsFilter) for one in handler.filters
        ):
            handler.addFilter(JobFieldsFilter())


def show_application_log(handler: logging.Handler) -> None:
    """Write the application's own records too, unless the application has configured logging itself.

    The handler becomes the handler of the root logger if that has none; its level becomes INFO if it is the default.
    """
    root = logging.getLogger()
    if root.handlers:
        return
    root.addHandler(handler)
    if root.level == logging.WARNING:  # the default
        root.setLevel(logging.INFO)


def is_written_by_application(record: logging.LogRecord, worker: logging.Handler) -> bool:
    """Return whether the application has a handler for the record below the root, so that ours would repeat it.

    For offsider's own records only a handler of a standard stream counts: others add to the worker's log.
    """
    at = logging.getLogger(record.name)
    repeats = _writes_to_standard_stream if is_ours(record) else _writes
    while at.parent is not None:
        if any(
            handler is not worker and record.levelno >= handler.level and repeats(handler) for handler in at.handlers
        ):
            return True
        at = at.parent
    return False


def _writes(handler: logging.Handler) -> bool:
    return not isinstance(handler, logging.NullHandler)


def _writes_to_standard_stream(handler: logging.Handler) -> bool:
    return isinstance(handler, logging.StreamHandler) and cast("Any", handler).stream in (sys.stdout, sys.stderr)


def is_ours(record: logging.LogRecord) -> bool:
    """Return whether the record is of the logger ``offsider`` or of one below it."""
    return record.name == "offsider" or record.name.startswith("offsider.")


def application_fields(record: logging.LogRecord) -> Mapping[str, object]:
    """Return the fields of a record of the application: its logger, the queue of the running job, and ``extra``."""
    extra = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    fields: dict[str, object] = {} if record.name == logging.root.name else {"logger": record.name}
    job = current_job_or_none()
    if job is not None and is_about(job, extra):
        fields["queue"] = job.queue
    return fields | extra
