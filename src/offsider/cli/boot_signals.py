"""TERM and INT before a worker has its queue of signals: they end the process at once, with exit code 0.

As PID 1 of a container, a process without a handler ignores TERM. Python's own handler of INT raises an exception at
any point of the imports. Nothing needs an orderly stop yet: no job runs.

This module imports little, because every import delays the handlers.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from types import FrameType
from typing import Any

_STANDARD: dict[signal.Signals, Any] = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)


def install() -> None:
    """Install the handlers in place of Python's standard ones. Outside of the main thread, do nothing."""
    with suppress(ValueError):  # not the main thread: the worker's queue of signals reports it
        # Inherited: the exit codes of programs that a job runs would be lost.
        if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, standard in _STANDARD.items():
            if signal.getsignal(number) == standard:
                signal.signal(number, _end)


def uninstall() -> None:
    """Restore Python's standard handlers, unless others have been installed."""
    for number, standard in _STANDARD.items():
        if signal.getsignal(number) == _end:
            signal.signal(number, standard)


def handler_of(number: int) -> Any:
    """Return the handler of a signal as `signal.getsignal` does, but Python's standard one in place of ours."""
    handler = signal.getsignal(number)
    return _STANDARD[signal.Signals(number)] if handler == _end else handler
