"""Signals become a queue: handlers only note them, the main thread acts on them one after another.

1. `SignalQueue.install` points Python's wakeup fd at a pipe and sets a handler for each signal we know. Called again
   after the application was loaded, it takes the pipe and the handlers back and keeps those of the application.
   In between, while `booting`, TERM and INT raise `StoppedEarly`: nothing runs yet that would need an orderly stop.
2. A signal writes its number into the pipe; the handlers that were there before ours are called first.
3. `SignalQueue.wait` sleeps on the pipe and answers the names that arrived. Those sent through Redis come
   here as well: the process sends them to itself.
4. A process that a job forks off has its signals to itself: else a TERM for it would fill the worker's pipe.
"""

from __future__ import annotations

import os
import select
import signal
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from types import FrameType
from typing import Any

from offsider.core.errors import ConfigurationError
from offsider.wiring.logs import logger

NAMES = ("TERM", "INT", "TSTP", "TTIN", "USR2")
STOPS = ("TERM", "INT")

Failure = tuple[str, BaseException]


class StoppedEarly(BaseException):
    """TERM or INT came before the worker had started. Not an Exception: no application shall swallow it."""


def send_to_self(name: str) -> None:
    """Do as if the process had got the signal: one that came through Redis reaches the application's handlers too."""
    number = getattr(signal, f"SIG{name}", None) if name in NAMES else None
    if number is None:
        logger.warning("the signal %s means nothing here", name)
    else:
        os.kill(os.getpid(), number)


class SignalQueue:
    """The signals that wait to be acted upon. Made in the main thread, which is also the one that waits."""

    def __init__(self, names: tuple[str, ...] = NAMES) -> None:
        self._numbers = {int(getattr(signal, f"SIG{name}")): name for name in names if hasattr(signal, f"SIG{name}")}
        self._earlier: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._restore: dict[int, Any] = {}
        self._failures: deque[Failure] = deque()
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        self._old_wakeup_fd: int | None = None
        self.booting = False

    def install(self) -> None:
        """Take the signals over, or back; ConfigurationError outside of the main thread."""
        try:
            earlier_fd = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        except ValueError as error:
            raise ConfigurationError(f"a worker's signals need the main thread: {error}") from error
        if self._old_wakeup_fd is None:
            self._old_wakeup_fd = earlier_fd
            os.register_at_fork(after_in_child=self._let_go)
        for number in self._numbers:
            handler = signal.getsignal(number)
            if handler == self._note:
                continue
            self._restore.setdefault(number, handler)
            # Python's own for INT raises KeyboardInterrupt wherever the main thread happens to be.
            if callable(handler) and handler is not signal.default_int_handler:
                self._earlier[number] = handler
            signal.signal(number, self._note)

    def uninstall(self) -> None:
        """Give the signals back to those who had them."""
        for number, handler in self._restore.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        self._restore.clear()
        if self._old_wakeup_fd is not None:
            signal.set_wakeup_fd(self._old_wakeup_fd)
            self._old_wakeup_fd = None

    def _let_go(self) -> None:
        """In a forked child: its signals are those of the application, as if no worker had been there."""
        self._restore.update({number: self._earlier[number] for number in self._restore if number in self._earlier})
        self.uninstall()

    def close(self) -> None:
        """Give the signals back and close the pipe."""
        self.uninstall()
        os.close(self._reading)
        os.close(self._writing)

    def wake(self) -> None:
        """End a `wait` early."""
        with suppress(BlockingIOError):  # full: whoever waits is awake already
            os.write(self._writing, b"\0")

    def wait(self, timeout_seconds: float | None, also: Collection[int] = ()) -> list[str]:
        """The names that arrived, in order; an empty list after the timeout or a `wake`.

        Args:
            timeout_seconds: how long to wait.
            also: file descriptors that end the wait as well, once there is something to read.
        """
        readable, _, _ = select.select([self._reading, *also], [], [], timeout_seconds)
        names: list[str] = []
        if self._reading in readable:
            numbers = os.read(self._reading, 4096)
            names = [self._numbers[number] for number in numbers if number in self._numbers]
        return names

    def failures(self) -> list[Failure]:
        """Errors of earlier handlers since the last call: the signal's name and the error."""
        taken: list[Failure] = []
        while self._failures:
            taken.append(self._failures.popleft())
        return taken

    def _note(self, number: int, frame: FrameType | None) -> None:
        """Our handler: the pipe has the signal already, what is left is to call who was here before."""
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
