"""Finished lines of the log on their way to the stream, written together every 20 ms.

1. `put` keeps a line and wakes the writer, a daemon thread that sleeps while there is nothing to write.
2. A tick later the writer hands everything over in one piece. `flush` does so at once, for whoever writes past
   the buffer and wants the order kept, and at the end of the process.
3. When the reader of the stream does not keep up, whoever puts the ten-thousandth line waits, as without a buffer.
4. ``kill -9`` loses what was put within the last tick, which is why only lines at INFO may come here.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

TICK_SECONDS = 0.02
MOST_LINES = 10_000


class LineBuffer:
    """Lines that wait to be written.

    Args:
        write: takes the text of several lines; called by one thread at a time.
        lock: held while lines are taken out and written. It is that of the handler, and reentrant: a record is
            written under it too, and flushes first; with a second lock the two would wait for each other.
    """

    def __init__(self, write: Callable[[str], None], lock: AbstractContextManager[object]) -> None:
        self._write = write
        self._lock = lock
        self._reset()
        itself: weakref.ref[LineBuffer] = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _with(itself, LineBuffer._reset))
        atexit.register(lambda: _with(itself, LineBuffer.flush))

    def _reset(self) -> None:
        # Also in the child of a fork, where the lines are its parent's and the writer is not there.
        self._lines: deque[str] = deque()
        self._starting = threading.Lock()
        self._waiting = threading.Event()
        self._awake = False
        self._writer: threading.Thread | None = None

    def put(self, line: str) -> None:
        """Keep a line; it ends with a newline."""
        self._lines.append(line)
        if len(self._lines) >= MOST_LINES:
            self.flush()  # the reader is slower than the jobs: let them wait for it
        if not self._awake:
            self._awake = True
            if self._writer is None:
                self._start()
            self._waiting.set()

    def flush(self) -> None:
        """Write what is there."""
        if not self._lines:
            return
        with self._lock:
            text: list[str] = []
            with suppress(IndexError):
                while True:
                    text.append(self._lines.popleft())
            if text:
                self._write("".join(text))

    def _start(self) -> None:
        with self._starting:
            if self._writer is None:
                self._writer = threading.Thread(target=self._serve, name="offsider-log", daemon=True)
                self._writer.start()

    def _serve(self) -> None:
        while True:
            self._waiting.wait()
            self._waiting.clear()
            time.sleep(TICK_SECONDS)
            self._awake = False
            self.flush()


def _with(reference: weakref.ref[LineBuffer], step: Callable[[LineBuffer], None]) -> None:
    buffer = reference()
    if buffer is not None:
        step(buffer)
