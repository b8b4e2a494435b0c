"""Errors that one process passes to another: with their causes, and with the lines of their tracebacks.

An error is pickled without its traceback and cause, and its class may not accept its own ``args``. Both processes run
the same program, and one is a child of the other: pickle gives the child no power that its jobs would not have in the
worker itself.
"""

from __future__ import annotations

import pickle
import sys
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise
from types import FrameType, TracebackType
from typing import Any, cast

from offsider.core.error_text import MAX_FRAMES, class_of, message_of, origin_of, trace_of
from offsider.core.errors import OffsiderError

#: Of an error, with its causes.
MAX_CAUSES = 20


@dataclass(frozen=True, slots=True)
class CarriedError:
    """One error.

    Attributes:
        name, message: for an error that pickle cannot store.
        pickled: the error, or its class, ``args`` and attributes; empty if pickle cannot store it.
        frames: file, module, qualified name and line of each frame, the outermost first.
    """

    name: str
    message: str
    pickled: bytes
    frames: list[tuple[str, str, str, int]]


def carried(error: BaseException, leave_out: str) -> list[CarriedError]:
    """Return an error and its causes for another process, without the frames of a module and those before them."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain and len(chain) < MAX_CAUSES:
        chain.append(current)
        current = origin_of(current)
    return [CarriedError(class_of(one), message_of(one), _pickled(one), _frames(one, leave_out)) for one in chain]


def raised_again(chain: list[CarriedError]) -> BaseException:
    """Return the error of another process with its causes."""
    errors = [_with_trace(_made(one), one.frames) for one in chain]
    for error, cause in pairwise(errors):
        error.__cause__ = cause
    return errors[0]


def _pickled(error: BaseException) -> bytes:
    kind = type(error)
    try:
        if kind.__reduce__ is BaseException.__reduce__ and hasattr(kind.__init__, "__code__"):
            # Written in Python: `pickle` would call it with `args`, which are often not what it takes.
            return pickle.dumps((kind, error.args, vars(error)))
        data = pickle.dumps(error)
        is_error = isinstance(pickle.loads(data), BaseException)  # noqa: S301 - of this process
    except Exception:  # noqa: BLE001 - code of the application
        return b""
    return data if is_error else b""


def _made(one: CarriedError) -> BaseException:
    try:
        found: Any = pickle.loads(one.pickled)  # noqa: S301 - see the module
        if not isinstance(found, tuple):
            return cast("BaseException", found)
        kind, args, state = cast("tuple[type[BaseException], tuple[Any, ...], dict[str, Any]]", found)
        error = kind.__new__(kind)
        error.args = args
        error.__dict__.update(state)
    except Exception:  # noqa: BLE001 - code of the application
        module, _, name = one.name.rpartition(".")
        foreign: type[OffsiderError] = type(name, (OffsiderError,), {"__module__": module or "builtins"})
        return foreign(one.message)
    return error


def _frames(error: BaseException, leave_out: str) -> list[tuple[str, str, str, int]]:
    found: list[tuple[str, str, str, int]] = []
    entry = trace_of(error)
    while entry is not None:
        code, module = entry.tb_frame.f_code, entry.tb_frame.f_globals.get("__name__")
        found.append((code.co_filename, str(module), code.co_qualname, entry.tb_lineno))
        if module == leave_out:
            found.clear()
        entry = entry.tb_next
    return [*islice(found, max(0, len(found) - MAX_FRAMES), None)]


def _with_trace(error: BaseException, frames: list[tuple[str, str, str, int]]) -> BaseException:
    """Give an error a traceback with these lines."""
    trace: TracebackType | None = None
    for file, module, function, line in reversed(frames):
        # -1: the line counts, and not the instruction
        trace = TracebackType(trace, frame_at(file, module, function, line), -1, line)
    return BaseException.with_traceback(error, trace)


@lru_cache(1_000)
def frame_at(file: str, module: str, function: str, line: int) -> FrameType:
    """Return a frame that has ended at a line."""
    code = compile("\n" * (line - 1) + "found = look()", file, "exec")  # one first line for all frames of a function
    code = code.replace(co_name=function.rpartition(".")[2], co_qualname=function)
    names: dict[str, Any] = {"__name__": module, "look": sys._getframe}  # noqa: SLF001 - the documented way
    exec(code, names)  # noqa: S102 - the lines above
    frame: FrameType = names.pop("found")
    return frame
