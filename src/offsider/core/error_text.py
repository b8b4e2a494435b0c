"""The class, the message and the traceback of an error, as they are stored with a job."""

from __future__ import annotations

import traceback

MOST_MESSAGE_CHARACTERS = 10_000
MOST_TRACEBACK_CHARACTERS = 10_000


def message_of(error: BaseException) -> str:
    """Return the error's message in a form that can be stored: at most 10,000 characters, valid UTF-8."""
    try:
        text = str(error)
    except Exception as own:  # noqa: BLE001 - an error whose str() raises is still an error of the job
        text = f"(the message of this error cannot be shown: its __str__ raised {type(own).__name__})"
    return text[:MOST_MESSAGE_CHARACTERS].encode("utf-8", "replace").decode("utf-8")


def class_of(error: BaseException) -> str:
    """Return the full name of the error's class; built-in classes without their module."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return name.encode("utf-8", "replace").decode("utf-8")


def traceback_of(error: BaseException) -> str:
    """Return the error's traceback as Python prints it, without its beginning if it exceeds 10,000 characters."""
    text = "".join(traceback.format_exception(error))
    return text[-MOST_TRACEBACK_CHARACTERS:].encode("utf-8", "replace").decode("utf-8")
