"""The class and the message of an error, as they are stored with a job."""

from __future__ import annotations

MOST_MESSAGE_CHARACTERS = 10_000


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
