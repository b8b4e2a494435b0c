"""A fork copies one thread and the locks of all: whoever forks must have no other."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from offsider.core.errors import ConfigurationError

TASKS = Path("/proc/self/task")


def refuse_threads() -> None:
    """Raise when this process has more than one thread.

    Raises:
        ConfigurationError: it names the threads.
    """
    others = other_threads()
    if others:
        raise ConfigurationError(
            f"--preload: the application has started threads while it was loaded ({', '.join(others)}), and a fork "
            'would copy their locks without them. Start them at the event "fork" or "startup", or leave --preload out'
        )


def other_threads() -> list[str]:
    """The names of all threads but this one; those that Python does not know by what the system calls them."""
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
