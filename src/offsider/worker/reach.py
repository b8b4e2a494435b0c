"""How the error of a time limit gets into a running job, thread or coroutine, and how we know that it has.

What is raised is a class made for this one purpose: an object of it comes into being only when the exception is
caught, by the job or by whatever surrounds it. Until then CPython holds the bare class, and so the making of the
object tells that it has landed. To the job it is the class that it was made from.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from offsider.core.errors import OffsiderError

if TYPE_CHECKING:
    from offsider.worker.async_runner import AsyncRunner
    from offsider.worker.interrupt import Window


class Reach:
    """Reaches the job that runs inside one window.

    Args:
        window: of the processor's thread.
        async_runner: where its coroutines run.
    """

    def __init__(self, window: Window, async_runner: AsyncRunner) -> None:
        self._window = window
        self._async_runner = async_runner

    def aim(self, kind: type[OffsiderError], message: str, landed: Callable[[], None]) -> bool:
        """Raise ``kind(message)`` in the job as soon as Python lets us, and call ``landed`` when it is raised.

        Returns:
            False when it cannot be tried: no job is inside the window, or a tracer forbids it.
        """
        thread_id = self._window.thread_id
        if thread_id is None:
            return False
        if self._async_runner.limit(thread_id, _telling(kind, message, landed, asyncio.CancelledError)):
            return True
        return self._window.interrupt(_telling(kind, message, landed))

    def place(self) -> str:
        """Where the job is now: ``file:line in function``; empty when it has ended."""
        thread_id = self._window.thread_id
        if thread_id is not None and self._async_runner.waits(thread_id):
            thread_id = self._async_runner.loop_thread_id
        frame: FrameType | None = sys._current_frames().get(thread_id or 0)  # noqa: SLF001 - the documented way
        return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


def _telling(
    kind: type[OffsiderError], message: str, landed: Callable[[], None], *beside: type[BaseException]
) -> type[OffsiderError]:
    def __init__(self: OffsiderError) -> None:  # noqa: N807 - of the class below
        kind.__init__(self, message)
        landed()

    def __reduce__(_self: OffsiderError) -> tuple[type[OffsiderError], tuple[str]]:  # noqa: N807
        return kind, (message,)

    body: dict[str, Any] = {
        "__init__": __init__,
        "__reduce__": __reduce__,
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
    }
    return type(kind.__name__, (kind, *beside), body)
