"""The texts of an error, bounded, as they are stored with a job and written to the log.

They call code of the application, such as ``__str__``, which may raise anything, also SystemExit, and may return any
amount of text. Nothing that it does ends the caller.
"""

from __future__ import annotations

import traceback
from itertools import islice

from offsider.core.tracebacks import linked, trace_of

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
