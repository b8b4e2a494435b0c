"""Report why a worker cannot start, in one to three lines (the traceback only with ``--verbose``); end a process."""

from __future__ import annotations

import atexit
import os
import re
import site
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from offsider.cli.text import CannotPrint, say
from offsider.core.error_text import describe
from offsider.logs.setup import flush_log, logger

_PACKAGE = str(Path(__file__).resolve().parents[1])
_STANDARD_LIBRARY = str(Path(os.__file__).parent)
_NOT_THE_USERS = ("<frozen", "<string>", _PACKAGE, _STANDARD_LIBRARY, *site.getsitepackages())
_FURTHER_LINE = re.compile("\n(?=  )")
# Every model that is imported before django.setup() raises AppRegistryNotReady.
DJANGO_SETUP = (
    "  Django is not set up: add offsider.django to INSTALLED_APPS and set DJANGO_SETTINGS_MODULE, or call "
    "django.setup() before the models are imported"
)


def give_up(message: str, error: BaseException | None = None, *, verbose: bool = False) -> int:
    """Write the reason to standard error, and return the exit code 1.

    Further lines of our own messages are indented; any other line break is part of a name, and is escaped.
    """
    lines = _FURTHER_LINE.split(f"offsider: {message}")
    if error is not None and verbose:
        lines += "".join(traceback.format_exception(error)).splitlines()
    with suppress(CannotPrint):
        say(*lines, err=True)
    return 1


def explain(what: str, error: BaseException) -> str:
    """Return a message with the failed step, the error, and the line of the user's code that raised it."""
    lines = [f"{what}: {_first_line(error)}"]
    if type(error).__name__ == "AppRegistryNotReady":
        lines.append(DJANGO_SETUP)
    line = user_line(error)
    if line is not None:
        lines.append(f"  at {line}")
    return "\n".join(lines)


def user_line(error: BaseException) -> str | None:
    """Return ``file:line: source`` of the innermost line outside Python and installed packages, or None."""
    if isinstance(error, SyntaxError) and error.filename:
        return _shown(error.filename, error.lineno or 0, (error.text or "").strip())
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        # A virtual environment may be inside the project, and the project inside a folder of the interpreter.
        if not frame.filename.startswith(_NOT_THE_USERS) and "site-packages" not in frame.filename:
            return _shown(frame.filename, frame.lineno or 0, frame.line or "")
    return None


def _first_line(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    if isinstance(error, SystemExit):
        code = "" if error.code is None else repr(error.code)
        return f"the application called sys.exit({code})"
    return describe(error).partition("\n")[0]


def _shown(file: str, line: int, source: str) -> str:
    with suppress(ValueError, OSError):  # outside the current folder, or that was removed: show the whole path
        file = str(Path(file).resolve().relative_to(Path.cwd()))
    return f"{file}:{line}: {source}" if source else f"{file}:{line}"


def flush_output() -> None:
    """Flush the log, standard output and standard error before an abrupt exit; ignore errors."""
    flush_log()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # the application may have replaced it, also by None
            continue


def end_process(code: int, *, within_seconds: float) -> NoReturn:
    """Run the `atexit` functions, then end the process without waiting for threads that could not be interrupted.

    A plain ``sys.exit`` would wait for such threads, or finalize the interpreter while they still run.
    """
    with suppress(RuntimeError):  # the system has no more threads
        guard = threading.Timer(within_seconds, os._exit, (code,))
        guard.daemon = True
        guard.start()
    try:
        atexit._run_exitfuncs()  # noqa: SLF001  # the interpreter would call it next
    except BaseException as error:  # noqa: BLE001  # there is no caller left to raise it to
        logger.error("a function registered with atexit failed: %s", describe(error))
    flush_output()
    os._exit(code)
