"""What every thread and every asyncio task is doing right now, for ``kill -TTIN``."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator
from typing import Any

from offsider.wiring.logs import base36, describe, logger


def dump(tasks: Iterable[asyncio.Task[Any]] = ()) -> None:
    """Write all stacks to the log."""
    for text in (*thread_stacks(), *task_stacks(tasks)):
        logger.warning("%s", text)


def thread_stacks() -> Iterator[str]:
    """One text for each thread: its number as log lines write it, its name, its stack."""
    known = {thread.ident: thread for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():  # noqa: SLF001  # the documented way to see other threads
        thread = known.get(ident)
        number = base36(thread.native_id or 0) if thread else "?"
        name = thread.name if thread else "unknown to threading"
        yield f"thread tid={number} {name}\n{''.join(traceback.format_stack(frame)).rstrip()}"


def task_stacks(tasks: Iterable[asyncio.Task[Any]]) -> Iterator[str]:
    """One text for each asyncio task: its name and where it waits."""
    for task in tasks:
        try:
            frames = task.get_stack()
            lines = [line for frame in frames for line in traceback.format_stack(frame, limit=1)]
            yield f"asyncio task {task.get_name()}\n{''.join(lines).rstrip()}"
        except Exception as error:  # noqa: BLE001  # the task runs in another thread and may change meanwhile
            yield f"asyncio task {task.get_name()}: its stack cannot be shown: {describe(error)}"
