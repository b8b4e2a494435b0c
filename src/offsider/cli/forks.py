"""Forks of this process, and the threads that prevent them."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from offsider.cli.failure import flush_output
from offsider.cli.start import install_boot_signals
from offsider.logs.output import WRITER
from offsider.logs.setup import end_writers, logger

if TYPE_CHECKING:
    from collections.abc import Callable

TASKS = Path("/proc/self/task")


def fork(release: Callable[[], None], run: Callable[[], NoReturn]) -> int | None:
    """Fork this process, and return the pid of the child, or None if the system has no room for another process.

    The child calls ``release`` while signals are blocked, ends on TERM and INT from then on, and calls ``run``. Without
    the block, Python's own handler of INT would raise in a hook of the fork.
    """
    flush_output()
    end_writers()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        try:
            pid = os.fork()
        except OSError as error:  # too many processes, or too little memory
            logger.error("cannot fork a process, trying again: %s", error)
            return None
        if pid == 0:
            release()
            install_boot_signals()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if pid == 0:
        run()
    return pid


def other_threads() -> list[str]:
    """Return the names of all other threads; threads that Python did not start have their system name.

    Writers of the log that are blocked by a full pipe do not count: they hold no lock, and a fork makes new queues.
    """
    python = {thread.native_id: thread.name for thread in threading.enumerate()}
    own = {threading.get_native_id(), *(number for number, name in python.items() if name == WRITER)}
    if not TASKS.is_dir():
        return sorted(name for number, name in python.items() if number not in own)
    return sorted(python.get(number) or _called(number) for number in map(int, os.listdir(TASKS)) if number not in own)  # noqa: PTH208  # names alone


def _called(number: int) -> str:
    try:
        return f"{(TASKS / str(number) / 'comm').read_text().strip()} (not Python's)"
    except OSError:
        return f"thread {number}"
