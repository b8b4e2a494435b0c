"""Stopping a thread in the middle of a job, and never in the middle of our own bookkeeping.

CPython can raise an exception in another thread, between two bytecodes of that thread; one that waits
in a system call or holds the GIL is not reached until it comes back. So:

1. The window opens right before ``perform`` and closes right after. Outside, `interrupt` does nothing.
   A stop raises `Shutdown`; a time limit raises `SoftTimeout` or `HardTimeout`.
2. Closing lets an exception that was aimed but has not landed do so there, so that it cannot land later.
3. A thread that is not reached keeps its job; the job is given back in the last step of the stop and the
   process exits (rule 12).
4. Nothing is aimed while CPython 3.11 traces functions, as coverage and debuggers have it do: until the exception
   has landed every traced thread hangs at its next call, the one that stops the worker included.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from types import TracebackType

from offsider.core.errors import HardTimeout, Shutdown, SoftTimeout

AIMED = (Shutdown, SoftTimeout, HardTimeout)
LANDING_JUMPS = 1000


class Window:
    """The stretch of one thread's life in which its job may be interrupted. Use as a context manager."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread_id: int | None = None
        self._aimed: type[BaseException] | None = None

    def __enter__(self) -> None:
        with self._lock:
            self._thread_id = threading.get_ident()
            self._aimed = None

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
                # It landed here and not in the job, which had already ended.
                continue
            return

    def interrupt(self, error: type[BaseException] = Shutdown) -> bool:
        """Raise ``error`` in the thread. False when it is not inside the window, or nothing may be aimed.

        Args:
            error: one of those in `AIMED`, or derived from one.
        """
        with self._lock:
            if self._thread_id is None or not _may_aim():
                return False
            if self._aimed in (error, Shutdown):
                # Once is enough, and a second one could land where the first has been dealt with.
                return True
            self._aimed = error
            target = ctypes.c_ulong(self._thread_id)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(target, ctypes.py_object(error))
            return True

    @property
    def thread_id(self) -> int | None:
        """The thread that is inside the window now, as `threading.get_ident` tells it."""
        return self._thread_id


def _may_aim() -> bool:
    return sys.version_info >= (3, 12) or (sys.gettrace() is None and threading.gettrace() is None)


def _let_it_land() -> None:
    """Give an exception that is under way the jumps at which CPython raises it.

    Taking it back instead (by aiming NULL) leaves CPython 3.11 looking for one at every jump from then on.
    """
    for _ in range(LANDING_JUMPS):
        pass


def caused_by_shutdown(error: BaseException) -> bool:
    """Whether a stop of the worker is at the root of ``error``: then it is no failure (row D3)."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        if isinstance(current, Shutdown):
            return True
        seen.add(id(current))
        current = current.__cause__ or current.__context__
    return False
