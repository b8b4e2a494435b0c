"""The exceptions that an error links to, and the frames that their tracebacks keep alive."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from types import FrameType
from typing import cast

_SUSPENDABLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def linked(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its causes and contexts, and the members of exception groups, each of them once."""
    seen: set[int] = set()
    pending = [error]
    while pending:
        one = pending.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            if isinstance(one, BaseExceptionGroup):
                pending += cast("BaseExceptionGroup[BaseException]", one).exceptions
            pending += [other for other in (one.__context__, one.__cause__) if other is not None]


def clear_frames(error: BaseException) -> None:
    """Free the local variables of all frames behind an error; its tracebacks can still be printed.

    A traceback refers to the frames that raised the error, and these to the frames that called them. One of them mostly
    has the error in a variable, and only the garbage collector would free such a cycle, which may be hours later.
    Frames that still run are left alone.
    """
    cleared: set[FrameType] = set()
    for one in linked(error):
        entry = one.__traceback__
        while entry is not None:
            frame: FrameType | None = entry.tb_frame
            while frame is not None and frame not in cleared and _clear(frame):
                cleared.add(frame)
                frame = frame.f_back
            entry = entry.tb_next


def _clear(frame: FrameType) -> bool:
    """Clear a frame; False if it still runs."""
    try:
        # Before CPython 3.13, this closes a suspended coroutine, which may belong to another job.
        if sys.version_info >= (3, 13) or not frame.f_code.co_flags & _SUSPENDABLE:
            frame.clear()
    except RuntimeError:
        return False
    return True
