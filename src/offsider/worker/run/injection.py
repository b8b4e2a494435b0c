"""Raises the error of a time limit in a running job, thread or coroutine, and detects that it was raised.

Each injection creates a new subclass of the error class. CPython keeps the bare class until the exception is caught,
by the job or by its caller, and only then creates an instance. So the constructor of the subclass reports that the
error was raised. To the job, the subclass looks like the original error class.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod

from offsider.core.errors import OffsiderError

if TYPE_CHECKING:
    from offsider.worker.run.async_runner import AsyncRunner
    from offsider.worker.run.interrupt import Window


class Injection:
    """Raises errors in the job that runs inside one window.

    Args:
        window: the window of the processor's thread.
        async_runner: runs the coroutines of that thread.
    """

    def __init__(self, window: Window, async_runner: AsyncRunner) -> None:
        self._window = window
        self._async_runner = async_runner

    def aim(self, kind: type[OffsiderError], message: str, landed: Callable[[], None]) -> bool:
        """Raise ``kind(message)`` in the job as soon as Python allows it; then call ``landed``, a method.

        Returns:
            False if it was not possible: no job is inside the window, or `Window.interrupt` refused.
        """
        thread_id = self._window.thread_id
        if thread_id is None:
            return False
        if self._async_runner.limit(thread_id, _telling(kind, message, landed, asyncio.CancelledError)):
            return True
        return self._window.interrupt(_telling(kind, message, landed))

    def place(self) -> str:
        """Return the line that the job executes, as ``file:line in function``; empty if it has ended."""
        thread_id = self._window.thread_id
        if thread_id is not None and self._async_runner.waits(thread_id):
            thread_id = self._async_runner.loop_thread_id
        frame: FrameType | None = sys._current_frames().get(thread_id or 0)  # noqa: SLF001 - the documented way
        return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


def _telling(
    kind: type[OffsiderError], message: str, landed: Callable[[], None], *beside: type[BaseException]
) -> type[OffsiderError]:
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
