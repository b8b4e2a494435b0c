"""What a command does before anything else: standard streams, its folder, and TERM and INT during the boot of a worker.

1. The streams are present, and able to write any text.
2. A deploy points a symbolic link such as ``current`` at a new folder, or removes the folder of the old release. The
   kernel then still has the old folder; ``$PWD`` names the new one.
3. TERM and INT end a worker at once, with exit code 0, before it has its queue of signals: nothing needs an orderly
   stop yet. As PID 1 of a container, a process without a handler ignores TERM. Python's own handler of INT raises an
   exception at any point of the imports.

This module imports little, because every import delays the handlers.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from offsider.core.errors import ConfigurationError

_STANDARD: dict[signal.Signals, Any] = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}


def prepare_streams() -> None:
    """Open streams that were closed when the process started, and escape characters that an encoding does not have.

    A closed descriptor is opened too: otherwise a connection would get its number, and the output of a subprocess
    would be written to that connection. If other code has opened it since, it belongs to that code, and remains.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest free number, which is this one
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode)  # noqa: PTH123, SIM115  # open until the process ends
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        with suppress(AttributeError, ValueError):  # not a text file; closed
            getattr(sys, name).reconfigure(errors="backslashreplace")


def finish_streams() -> None:
    """Discard output that a stream does not take: Python would report it at the end, and change the exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)


def start_folder() -> str:
    """Return ``$PWD`` if it is this folder's name, else the kernel's name of the folder."""
    named = os.environ.get("PWD", "")
    try:
        if named and os.path.samefile(named, "."):  # noqa: PTH121  # $PWD may contain any characters
            return named
    except (OSError, ValueError):
        pass
    return str(Path.cwd())


def leave_removed_folder() -> None:
    """If the current folder has been removed, change into the one that ``$PWD`` names now.

    Raises:
        ConfigurationError: there is none.
    """
    try:
        Path.cwd()
    except FileNotFoundError:
        named = os.environ.get("PWD", "")
        try:
            os.chdir(named)
        except (OSError, ValueError):
            raise ConfigurationError(
                f"the current folder {named} has been removed: change into an existing one, for example cd /"
            ) from None


def _end_boot(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)


def install_boot_signals() -> None:
    """Install the handlers in place of Python's standard ones. Outside of the main thread, do nothing."""
    with suppress(ValueError):  # not the main thread: the worker's queue of signals reports it
        # Inherited: the exit codes of programs that a job runs would be lost.
        if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, standard in _STANDARD.items():
            if signal.getsignal(number) == standard:
                signal.signal(number, _end_boot)


def uninstall_boot_signals() -> None:
    """Restore Python's standard handlers, unless others have been installed."""
    for number, standard in _STANDARD.items():
        if signal.getsignal(number) == _end_boot:
            signal.signal(number, standard)


def handler_of(number: int) -> Any:
    """Return the handler of a signal as `signal.getsignal` does, but Python's standard one in place of ours."""
    handler = signal.getsignal(number)
    return _STANDARD[signal.Signals(number)] if handler == _end_boot else handler
