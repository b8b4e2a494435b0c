"""Refuse to fork beside other threads: a fork copies one thread, but the locks of all."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from offsider.core.errors import ConfigurationError

TASKS = Path("/proc/self/task")


def refuse_threads() -> None:
    """Raise when this process has more than one thread.

    Raises:
        ConfigurationError: there are other threads; the message names them.
    """
    others = other_threads()
    if others:
        raise ConfigurationError(
            f"--preload: the application started threads while it was loaded ({', '.join(others)}). A fork copies "
            'their locks but not the threads. Start them at the event "fork" or "startup", or remove --preload'
        )


def other_threads() -> list[str]:
    """Return the names of all other threads; threads that Python does not know have their system name."""
    here = threading.get_native_id()
    python = {thread.native_id: thread.name for thread in threading.enumerate()}
    if not TASKS.is_dir():
        return sorted(name for number, name in python.items() if number != here)
    return sorted(python.get(number) or _called(number) for number in map(int, os.listdir(TASKS)) if number != here)  # noqa: PTH208  # names alone


def _called(number: int) -> str:
    try:
        return f"{(TASKS / str(number) / 'comm').read_text().strip()} (not Python's)"
    except OSError:
        return f"thread {number}"
