"""Stacks of all threads and asyncio tasks, for ``kill -TTIN``."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator
from typing import Any

from offsider.logs.setup import base36, describe, logger


def dump(tasks: Iterable[asyncio.Task[Any]] = ()) -> None:
    """Write all stacks to the log."""
    for text in (*thread_stacks(), *task_stacks(tasks)):
        logger.warning("%s", text)


def thread_stacks() -> Iterator[str]:
    """Yield one text per thread: its ID as in log lines, its name, its stack."""
    known = {thread.ident: thread for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():  # noqa: SLF001  # the documented way to see other threads
        thread = known.get(ident)
        number = base36(thread.native_id or 0) if thread else "?"
        name = thread.name if thread else "unknown to threading"
        yield f"thread tid={number} {name}\n{''.join(traceback.format_stack(frame)).rstrip()}"


def task_stacks(tasks: Iterable[asyncio.Task[Any]]) -> Iterator[str]:
    """Yield one text per asyncio task: its name and its stack."""
    for task in tasks:
        try:
            frames = task.get_stack()
            lines = [line for frame in frames for line in traceback.format_stack(frame, limit=1)]
            yield f"asyncio task {task.get_name()}\n{''.join(lines).rstrip()}"
        except Exception as error:  # noqa: BLE001  # the task runs in another thread and may change during the read
            yield f"asyncio task {task.get_name()}: its stack cannot be shown: {describe(error)}"
