"""The texts of an error, bounded, as they are stored with a job and written to the log; its links and its frames.

The texts call code of the application, such as ``__str__``, which may raise anything, also SystemExit, and may return
any amount of text. Nothing that it does ends the caller.
"""

from __future__ import annotations

import inspect
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NamedTuple

MAX_MESSAGE_CHARACTERS = 10_000
MAX_CLASS_CHARACTERS = 500
#: Stored with a job.
MAX_TRACEBACK_CHARACTERS = 10_000
#: In the log.
MAX_LOGGED_CHARACTERS = 50_000
MAX_FRAMES = 200
#: Of an error with more causes, contexts and members of groups, only its own traceback is formatted.
MAX_LINKED = 100
CUT = "…"
#: Of a file or function in the name of a frame.
MAX_FRAME_CHARACTERS = 100
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_SUSPENDABLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

# What the interpreter set: the class of an error may have properties with these names that raise anything.
_MEMBERS: Any = vars(BaseExceptionGroup)["exceptions"]
_CONTEXT: Any = vars(BaseException)["__context__"]
_CAUSE: Any = vars(BaseException)["__cause__"]
_TRACEBACK: Any = vars(BaseException)["__traceback__"]

_OURS = f"{Path(__file__).parents[1]}/"
_PYTHON = tuple({f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib")})


def shown(value: object, most: int = MAX_MESSAGE_CHARACTERS) -> str:
    """Return ``str(value)``, cut after ``most`` characters; ``<TypeName>`` for an object whose ``str()`` raises."""
    try:
        return _text_of(value, most)
    except BaseException:  # noqa: BLE001 - code of the application, see the module
        return f"<{type(value).__name__[:MAX_CLASS_CHARACTERS]}>"


def message_of(error: BaseException) -> str:
    """Return the error's message in a form that can be stored: at most 10,000 characters, valid UTF-8."""
    return _storable(_message(error))


def class_of(error: BaseException) -> str:
    """Return the full name of the error's class; built-in classes without their module."""
    return _storable(_name_of(type(error)))


def describe(error: BaseException) -> str:
    """Return ``ClassName: message`` for the log, or only the name of the class."""
    name, text = type(error).__name__[:MAX_CLASS_CHARACTERS], _message(error)
    return f"{name}: {text}" if text else name


def traceback_parts(error: BaseException) -> list[str]:
    """Return the error's traceback as `traceback.format_exception` does: each part and the number of frames bounded."""
    try:
        if len([*islice(linked(error), MAX_LINKED + 1)]) <= MAX_LINKED:
            return [part[:MAX_MESSAGE_CHARACTERS] for part in traceback.format_exception(error, limit=-MAX_FRAMES)]
    except BaseException:  # noqa: BLE001, S110 - as in `shown`
        pass
    head = "Traceback (most recent call last):\n"
    return [head, *traceback.format_tb(trace_of(error), -MAX_FRAMES), f"{describe(error)}\n"]


def traceback_of(error: BaseException, most: int = MAX_TRACEBACK_CHARACTERS) -> str:
    """Return the error's traceback as Python prints it, without its beginning if it exceeds ``most`` characters."""
    return _storable(last_characters("".join(traceback_parts(error)), most))


class Frame(NamedTuple):
    """A frame of a traceback.

    Attributes:
        file: the file below the folder of its top package, so that it is the same in every release and on every host.
        function: its qualified name.
        line: line number.
    """

    file: str = ""
    function: str = ""
    line: int = 0

    @property
    def name(self) -> str:
        """``file:function``, which identifies the frame in all releases; empty without a frame."""
        return f"{self.file}:{self.function}" if self.file else ""


def frame_of(error: BaseException, module: str = "") -> Frame:
    """Return the top application frame: the innermost one that is not of Python, an installed package or offsider.

    Args:
        module: module of the job; frames of its top package count, also if the application itself is installed.

    Returns:
        an empty frame if there is none.
    """
    package, found = module.partition(".")[0], None
    entry = trace_of(error)
    while entry is not None:
        of_job = bool(package) and _module_of(entry.tb_frame).partition(".")[0] == package
        if _is_application(entry.tb_frame.f_code.co_filename, of_job):
            found = entry
        entry = entry.tb_next
    if found is None:
        return Frame()
    code = found.tb_frame.f_code
    path = Path(code.co_filename)
    depth = _module_of(found.tb_frame).count(".") + 1 + (path.name == "__init__.py")
    file, function = "/".join(path.parts[-depth:]), code.co_qualname
    return Frame(_storable(file[-MAX_FRAME_CHARACTERS:]), _storable(function[-MAX_FRAME_CHARACTERS:]), found.tb_lineno)


def _module_of(frame: FrameType) -> str:
    name = frame.f_globals.get("__name__")
    return name if isinstance(name, str) else ""


@lru_cache(maxsize=1_000)
def _is_application(file: str, of_job: bool) -> bool:  # noqa: FBT001  # for the cache
    """Whether a file is of the application; ``of_job`` means that it is of the package of the job."""
    if file.startswith(("<", _OURS)):
        return False
    return of_job or not (_INSTALLED.intersection(Path(file).parts) or file.startswith(_PYTHON))


def last_characters(text: str, most: int = MAX_LOGGED_CHARACTERS) -> str:
    """Return at most ``most`` characters of the end; a text that was cut begins with `CUT`."""
    return text if len(text) <= most else CUT + text[1 - most :]


def _message(error: BaseException) -> str:
    try:
        return _text_of(error, MAX_MESSAGE_CHARACTERS)
    except BaseException as own:  # noqa: BLE001 - an error whose str() raises is still an error of the job
        return f"(the message of this error cannot be shown: its __str__ raised {_name_of(type(own))})"


def _text_of(value: object, most: int) -> str:
    return str.__str__(str(value))[:most]  # a subclass of `str` may have other methods


def _name_of(kind: type) -> str:
    try:
        name, module = kind.__qualname__, kind.__module__
        return (name if module == "builtins" else f"{module}.{name}")[:MAX_CLASS_CHARACTERS]
    except BaseException:  # noqa: BLE001 - a metaclass may do anything
        return "error"


def _storable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


# ----------------------------------------------------------------------------------------------------
# The exceptions that an error links to, and the frames that their tracebacks keep alive


def linked(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its causes and contexts, and the members of exception groups, each of them once."""
    seen: set[int] = set()
    pending = [error]
    while pending:
        one = pending.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            pending += members_of(one)
            pending += [other for other in (_CONTEXT.__get__(one), _CAUSE.__get__(one)) if other is not None]


def members_of(error: BaseException) -> tuple[BaseException, ...]:
    """Return the members of an exception group; none of another error."""
    members: tuple[BaseException, ...] = ()
    if issubclass(type(error), BaseExceptionGroup):
        members = _MEMBERS.__get__(error)
    return members


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
        if sys.version_info >= (3, 13) or not frame.f_code.co_flags & _SUSPENDABLE:  # pragma: no branch
            frame.clear()
    except RuntimeError:
        return False
    return True
