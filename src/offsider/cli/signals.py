"""A queue of signals: the handlers only record them, and the main thread handles them one by one.

1. `SignalQueue.install` points Python's wakeup fd at a pipe and sets a handler for each known signal. Call it again
   after loading the application: it reinstalls the pipe and the handlers, and still calls the application's handlers.
   While `booting` is true, a stop raises `StoppedEarly`, because nothing needs an orderly stop yet.
2. Python writes the signal number to the pipe. Our handler calls the one that was installed before it; the main thread
   acts afterwards.
3. `SignalQueue.wait` sleeps on the pipe and returns the names that arrived, including those that arrive through Redis:
   the process sends them to itself.
4. A process that a job forks gets its original handlers back: otherwise a TERM to it would write to the worker's pipe.
   Signals are blocked during the fork, because one may arrive before the child has restored the handlers.
5. A signal without a meaning, whose default action ends a process, is logged once and ignored. It belongs to the
   application if that has set a handler, or if the process was started with the signal ignored (`nohup`); so do HUP and
   QUIT.
"""

from __future__ import annotations

import math
import os
import select
import signal
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from offsider.cli.start import handler_of
from offsider.core.errors import ConfigurationError
from offsider.core.wording import first_time
from offsider.logs.setup import logger

NAMES = ("TERM", "INT", "HUP", "QUIT", "TSTP", "TTIN", "USR2")
STOPS = ("TERM", "INT", "HUP", "QUIT")
_UNCHANGEABLE = ("KILL", "STOP")
_HARMLESS = ("CONT", "CHLD", "URG", "WINCH", "INFO", "TTOU")
_CRASHES = ("SEGV", "BUS", "ILL", "FPE", "ABRT", "TRAP", "SYS", "EMT", "XCPU", "XFSZ")
_LEFT_ALONE = frozenset((*_UNCHANGEABLE, *_HARMLESS, *_CRASHES))

Failure = tuple[str, BaseException]


class StoppedEarly(BaseException):
    """A stop was requested before the worker had started. Not an Exception, so that applications do not catch it."""


def handled(names: Collection[str] = NAMES) -> dict[int, str]:
    """Return number and name of the signals that a process with these `names` handles, meaningless ones included."""
    known = {int(number): _name(number) for number in signal.valid_signals()}
    return {number: name for number, name in known.items() if name in names or name not in _LEFT_ALONE}


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name.removeprefix("SIG")
    except ValueError:  # most real-time signals have no name
        return str(number)


def send_to_self(name: str) -> None:
    """Send a signal to this process, so that one received through Redis also reaches the application's handlers."""
    number = getattr(signal, f"SIG{name}", None) if name in NAMES else None
    if number is None:
        logger.warning("ignoring the signal %s: a worker does not handle it", name)
    else:
        os.kill(os.getpid(), number)


class SignalQueue:
    """The pending signals. Create it and wait on it in the main thread.

    Args:
        names: the signals that `wait` returns.
        on_other: called in `wait` with the number of another signal; by default it is logged.
    """

    def __init__(self, names: tuple[str, ...] = NAMES, on_other: Callable[[int], None] | None = None) -> None:
        self._names = names
        self._on_other = on_other or self._ignore
        self._numbers = handled(names)
        self._earlier: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._restore: dict[int, Any] = {}
        self._failures: list[Failure] = []
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        self._old_wakeup_fd: int | None = None
        #: Signal mask of each forking thread before the fork.
        self._forking = threading.local()
        self.booting = False

    def install(self) -> None:
        """Install the handlers, or reinstall those that were replaced.

        Raises:
            ConfigurationError: not called in the main thread.
        """
        try:
            earlier_fd = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        except ValueError as error:
            raise ConfigurationError(f"signal handlers must be installed in the main thread: {error}") from error
        if self._old_wakeup_fd is None:
            self._old_wakeup_fd = earlier_fd
            os.register_at_fork(
                before=self._block, after_in_parent=self._unblock, after_in_child=self._restore_in_child
            )
        set_in_c = _set_in_c()
        for number, name in self._numbers.items():
            handler = handler_of(number)
            if handler == self._handle:
                continue
            yields = name in {"HUP", "QUIT"} or name not in self._names
            if yields and (handler != signal.SIG_DFL or set_in_c >> (number - 1) & 1):
                continue
            self._restore.setdefault(number, handler)
            # Python's default handler of INT raises KeyboardInterrupt at any point of the main thread.
            if callable(handler) and handler is not signal.default_int_handler:
                self._earlier[number] = handler
            signal.signal(number, self._handle)
        # The program that started this one may have blocked them.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._numbers)

    def uninstall(self) -> None:
        """Restore the earlier handlers."""
        for number, handler in self._restore.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        self._restore.clear()
        if self._old_wakeup_fd is not None:
            signal.set_wakeup_fd(self._old_wakeup_fd)
            self._old_wakeup_fd = None

    def _restore_in_child(self) -> None:
        """In a forked child: restore the handlers of the application."""
        self._restore.update({number: self._earlier[number] for number in self._restore if number in self._earlier})
        self.uninstall()
        self._unblock()

    def _block(self) -> None:
        self._forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._numbers)

    def _unblock(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._forking.mask)

    def close(self) -> None:
        """Restore the earlier handlers and close the pipe."""
        self.uninstall()
        os.close(self._reading)
        os.close(self._writing)

    def wake(self) -> None:
        """Make `wait` return early."""
        with suppress(BlockingIOError):  # the pipe is full, so the waiting thread is awake already
            os.write(self._writing, b"\0")

    def wait(
        self,
        timeout_seconds: float | None,
        also: Collection[int] = (),
        writable: Collection[int] = (),
    ) -> list[str]:
        """Return the names that arrived, in order; an empty list after the timeout or a `wake`.

        Args:
            timeout_seconds: how long to wait.
            also: additional file descriptors; the wait also ends when one is readable.
            writable: the same, until one is writable.
        """
        poller = select.poll()  # select() refuses descriptors above 1023
        for fd in (self._reading, *also):
            poller.register(fd, select.POLLIN)
        for fd in writable:
            poller.register(fd, select.POLLOUT)
        readable = poller.poll(None if timeout_seconds is None else math.ceil(timeout_seconds * 1000))
        if self._reading not in dict(readable):
            return []
        arrived = [number for number in os.read(self._reading, 4096) if number in self._numbers]
        for number in arrived:
            if self._numbers[number] not in self._names:
                self._on_other(number)
        return [name for name in map(self._numbers.__getitem__, arrived) if name in self._names]

    def _ignore(self, number: int) -> None:
        name = self._numbers[number]
        if first_time("ignored signal", name):
            logger.warning("ignoring the signal %s: offsider does not use it", name)

    def failures(self) -> list[Failure]:
        """Return the errors of earlier handlers since the last call, each with the signal's name."""
        taken, self._failures = self._failures, []
        return taken

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Call the earlier handler; the number is in the pipe. While booting, raise StoppedEarly for a stop."""
        if self.booting and self._numbers[number] in STOPS:
            raise StoppedEarly
        earlier = self._earlier.get(number)
        if earlier is None:
            return
        try:
            earlier(number, frame)
        except BaseException as error:  # noqa: BLE001  # a SystemExit here would skip the orderly stop
            # Not logged here: the handler may have interrupted a write to the log.
            self._failures.append((self._numbers[number], error))
            self.wake()


def _set_in_c() -> int:
    """Return the bits of the handled signals, also by handlers in C such as `faulthandler.register`; 0 if unknown."""
    with suppress(OSError, ValueError, IndexError):  # not Linux
        status = Path("/proc/self/status").read_text()
        return int(status.partition("SigCgt:")[2].split(maxsplit=1)[0], 16)
    return 0
