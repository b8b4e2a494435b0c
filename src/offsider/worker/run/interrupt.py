"""Interrupts a thread while it runs a job, but never while it runs the worker's own bookkeeping.

CPython can raise an exception in another thread, between two bytecodes of that thread. A thread in a system call or in
C code does not see the exception until it executes bytecode again. Below, an exception is "aimed" when CPython has been
asked to raise it, and has "landed" when it is raised. Rules:

1. The window opens right before ``perform`` and closes right after. Outside, `interrupt` does nothing.
   A stop raises `Shutdown`; a time limit raises `SoftTimeout` or `HardTimeout`; a cancellation `JobCancelled`.
2. `interrupt` aims at no thread that is entering or leaving a context manager written in Python, such as a condition
   of `threading` or a queue: its lock would stay locked. It checks the thread again a moment later. (Since CPython
   3.13, an exception aimed at a thread that waits for the GIL lands one step later, which may still be in such a
   function.)
3. Closing the window lets an aimed exception land there, so that it cannot land later.
4. A thread that cannot be interrupted keeps its job; the last step of the stop requeues the job and the process exits
   (rule 12).
5. `interrupt` does nothing while CPython 3.11 traces functions, as it does for coverage and debuggers: until the
   exception has landed, every traced thread hangs at its next call, including the thread that stops the worker.
6. `interrupt` does nothing on a CPython in which an exception can keep `with` from releasing a lock: see
   `leaves_locks_taken`. It could be the lock of a log handler or of a connection pool, and the worker would hang
   forever. Nor does it without the GIL, because rule 2 relies on it.

`Injection` raises the error of a time limit and detects that it was raised: each injection creates a new subclass of
the error class (`reporting`). CPython keeps the bare class until the exception is caught, by the job or by its caller,
and only then creates an instance. So the constructor of the subclass reports that the error was raised. To the job, the
subclass looks like the original error class.
"""

from __future__ import annotations

import ctypes
import platform
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from types import FrameType, TracebackType
from typing import Any, TypeVar
from weakref import WeakMethod

from offsider.core import gil
from offsider.core.error_text import members_of, origin_of
from offsider.core.errors import HardTimeout, JobCancelled, OffsiderError, Shutdown, SoftTimeout

AIMED = (Shutdown, SoftTimeout, HardTimeout, JobCancelled)
LANDING_JUMPS = 1000
#: Attempts to find the thread in a function where it can be interrupted.
MAX_ATTEMPTS = 5
POLL_SECONDS = 0.0005
#: Functions in which an exception would leave a lock locked, or be swallowed.
SPARED = frozenset({"__enter__", "__exit__", "__del__"})

E = TypeVar("E", bound=BaseException)

#: The module that calls the function of a job.
_CALLER = "offsider.jobs.declared"
#: A separate function object: other code may set other argument types on the attribute of `ctypes.pythonapi`.
_set_async_exc = ctypes.pythonapi["PyThreadState_SetAsyncExc"]
_set_async_exc.argtypes = (ctypes.c_ulong, ctypes.py_object)


class _Landed(BaseException):
    """Raised by `leaves_locks_taken` in its own thread."""


def leaves_locks_taken() -> bool:
    """Return whether an exception can be raised right after ``__enter__``, so that ``__exit__`` is not called.

    CPython 3.14 and later are affected, until https://github.com/python/cpython/issues/148874 is fixed.
    """
    if sys.hexversion < 0x030E0000:
        return False

    class Probe:
        left = False
        # Written in C: it returns before the exception that it aims at its own thread can be raised.
        __enter__ = staticmethod(partial(_set_async_exc, threading.get_ident(), _Landed))

        def __exit__(self, *_: object) -> None:
            self.left = True

    probe = Probe()
    try:
        with probe:
            _let_it_land()
    except _Landed:
        pass
    return not probe.left


class Window:
    """The time during which the job of one thread may be interrupted. Use as a context manager."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread_id: int | None = None
        self._aimed: type[BaseException] | None = None

    def __enter__(self) -> None:
        self._thread_id = threading.get_ident()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while True:
            try:
                with self._lock:
                    self._thread_id = None
                if self._aimed is not None:
                    _let_it_land()
            except AIMED:
                # It landed here, after the job had ended.
                continue
            self._aimed = None
            return

    def interrupt(self, error: type[BaseException] = Shutdown, still: Callable[[], bool] = lambda: True) -> bool:
        """Raise ``error`` in the thread.

        Args:
            error: a class in `AIMED`, or a subclass of one.
            still: returns whether the thread runs the job that is meant; called while the window cannot close.

        Returns:
            False if the thread is outside the window, stays in a spared function, or interrupts are not possible.
        """
        for attempt in range(MAX_ATTEMPTS):
            if attempt:
                time.sleep(POLL_SECONDS)
            with self._lock:
                if self._thread_id is None or not _may_aim() or not still():
                    return False
                if self._aimed in (error, Shutdown):
                    # A second exception could land in the code that handles the first one.
                    return True
                if _aim(self._thread_id, error):
                    self._aimed = error
                    return True
        return False

    @property
    def thread_id(self) -> int | None:
        """Ident of the thread that is inside the window now; None without one."""
        return self._thread_id


def _may_aim() -> bool:
    if OBSTACLE:
        return False
    return sys.version_info >= (3, 12) or (sys.gettrace() is None and threading.gettrace() is None)


def _aim(thread_id: int, error: type[BaseException]) -> bool:
    """Aim ``error`` at a thread; False if the thread is in a spared function.

    This thread must keep the GIL between the check and the aim: otherwise the other thread could enter a spared
    function in between. CPython releases the GIL at calls and jumps. So this is a `for` over an iterator written in C,
    which returns in its first pass and calls no Python code.
    """
    for frames in iter(sys._current_frames, None):  # noqa: SLF001 - the documented way
        if frames[thread_id].f_code.co_name in SPARED:
            return False
        _set_async_exc(thread_id, error)
        return True
    return False


def _let_it_land() -> None:
    """Execute enough jumps for CPython to raise an aimed exception.

    Clearing it instead (by aiming NULL) makes CPython 3.11 check for an exception at every jump from then on.
    """
    for _ in range(LANDING_JUMPS):
        pass


def find_obstacle() -> str:
    """Return why this CPython cannot interrupt threads; empty if it can."""
    if leaves_locks_taken():
        return f"CPython {platform.python_version()} might never release a lock if it interrupted the thread"
    if not gil.is_on():  # `_aim` relies on it
        return "without the GIL, the thread might acquire a lock at that moment and never release it"
    return ""


OBSTACLE = find_obstacle()


def caused_by(kind: type[E], error: BaseException) -> E | None:
    """Return the error of this class that caused ``error``, even if the job raised another exception from it.

    If a stop of the worker did (`Shutdown`), the job did not fail (parity.md, row D3). It caused a group, as of
    `asyncio.TaskGroup`, if it caused all its members.
    """
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        if isinstance(current, kind):
            return current
        found = [caused_by(kind, one) for one in members_of(current)]
        if found and None not in found:
            return found[0]
        seen.add(id(current))
        current = origin_of(current)
    return None


class Injection:
    """Raises errors in the job that runs inside the window of one thread.

    Args:
        still: returns whether the thread runs the job that is meant; by default any job is.
    """

    def __init__(self, window: Window, still: Callable[[], bool] = lambda: True) -> None:
        self._window = window
        self._still = still

    def aim(self, kind: type[OffsiderError], message: str, landed: Callable[[], None]) -> bool:
        """Raise ``kind(message)`` in the job as soon as Python allows it; then call ``landed``, a method.

        Returns:
            False if it was not possible: no job is inside the window, or `Window.interrupt` refused.
        """
        return self._window.thread_id is not None and self._window.interrupt(
            reporting(kind, message, landed), self._still
        )

    def kill(self, error: OffsiderError) -> bool:  # noqa: ARG002
        """Return False: a thread cannot be killed."""
        return False

    def place(self) -> str:
        """Return the line that the job executes, as ``file:line in function``; empty if it has ended."""
        return place_of(self._window.thread_id)

    def frames(self) -> list[FrameType]:
        """Return the frames of the job, outermost first, without those of the worker; none if it has ended."""
        frame = sys._current_frames().get(self._window.thread_id or 0)  # noqa: SLF001 - the documented way
        found: list[FrameType] = []
        while frame is not None and frame.f_globals.get("__name__") != _CALLER:
            found.append(frame)
            frame = frame.f_back
        # The thread may have begun another job since.
        return found[::-1] if frame is not None and self._still() else []


def place_of(thread_id: int | None) -> str:
    """Return the line that a thread executes; empty for None, and if it has ended."""
    frame: FrameType | None = sys._current_frames().get(thread_id or 0)  # noqa: SLF001 - the documented way
    return "" if frame is None else line_of(frame)


def line_of(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


def reporting(
    kind: type[OffsiderError], message: str, landed: Callable[[], None], *beside: type[BaseException]
) -> type[OffsiderError]:
    """Return a subclass of ``kind`` and ``beside`` that calls ``landed`` when it is raised."""
    # A class is freed by the garbage collector only; until then it must not keep the job that `landed` belongs to.
    reported = WeakMethod(landed)

    def __init__(self: OffsiderError) -> None:  # noqa: N807 - of the class below
        kind.__init__(self, message)
        report = reported()
        if report is not None:
            report()

    def __reduce__(_self: OffsiderError) -> tuple[type[OffsiderError], tuple[str]]:  # noqa: N807
        return kind, (message,)

    body: dict[str, Any] = {
        "__init__": __init__,
        "__reduce__": __reduce__,
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
    }
    return type(kind.__name__, (kind, *beside), body)
