"""The exceptions that an error links to, and the frames that their tracebacks keep alive."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

_SUSPENDABLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

# What the interpreter set: the class of an error may have properties with these names that raise anything.
_MEMBERS: Any = vars(BaseExceptionGroup)["exceptions"]
_CONTEXT: Any = vars(BaseException)["__context__"]
_CAUSE: Any = vars(BaseException)["__cause__"]
_TRACEBACK: Any = vars(BaseException)["__traceback__"]


def linked(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its causes and contexts, and the members of exception groups, each of them once."""
    seen: set[int] = set()
    pending = [error]
    while pending:
        one = pending.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            if issubclass(type(one), BaseExceptionGroup):
                pending += _MEMBERS.__get__(one)
            pending += [other for other in (_CONTEXT.__get__(one), _CAUSE.__get__(one)) if other is not None]


def origin_of(error: BaseException) -> BaseException | None:
    """Return the cause of an error; without one, its context."""
    cause: BaseException | None = _CAUSE.__get__(error)
    return cause if cause is not None else _CONTEXT.__get__(error)


def trace_of(error: BaseException) -> TracebackType | None:
    """Return the error's ``__traceback__``."""
    trace: TracebackType | None = _TRACEBACK.__get__(error)
    return trace


def clear_frames(error: BaseException) -> None:
    """Free the local variables of all frames behind an error; its tracebacks can still be printed.

    A traceback refers to the frames that raised the error, and these to the frames that called them. One of them mostly
    has the error in a variable, and only the garbage collector would free such a cycle, which may be hours later.
    Frames that still run are left alone.
    """
    cleared: set[FrameType] = set()
    for one in linked(error):
        entry = trace_of(one)
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
