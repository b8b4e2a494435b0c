"""Buffers formatted log lines, and writes them together every 20 ms.

1. `put` adds a line and wakes the writer, a daemon thread that sleeps while the buffer is empty.
2. A tick later the writer writes all lines in one piece. `flush` writes them immediately: before any other write to
   the stream, and at the end of the process.
3. If the writer does not keep up, the thread that adds the ten-thousandth line writes the buffer.
4. ``kill -9`` loses the lines of the last tick, so only lines at INFO are buffered.
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
    """A buffer of log lines.

    Args:
        write: writes the text of several lines; called by one thread at a time.
        lock: held while lines are removed and written. It is the handler's reentrant lock: the handler also holds it
            while it writes a record, and flushes the buffer first. A second lock could deadlock.
    """

    def __init__(self, write: Callable[[str], None], lock: AbstractContextManager[object]) -> None:
        self._write = write
        self._lock = lock
        self._reset()
        itself: weakref.ref[LineBuffer] = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _with(itself, LineBuffer._reset))
        atexit.register(lambda: _with(itself, LineBuffer.flush))

    def _reset(self) -> None:
        # Also runs in a forked child, where the lines belong to the parent and there is no writer thread.
        self._lines: deque[str] = deque()
        #: Whether a thread writes lines that are no longer in the buffer; set under the lock, before they are removed.
        self._writing = False
        self._starting = threading.Lock()
        self._waiting = threading.Event()
        self._awake = False
        self._writer: threading.Thread | None = None

    def put(self, line: str) -> None:
        """Add a line, which ends with a newline."""
        self._lines.append(line)
        if len(self._lines) >= MOST_LINES:
            self.flush()  # the reader is slower than the jobs, so the jobs wait
        if not self._awake:
            self._awake = True
            if self._writer is None:
                self._start()
            self._waiting.set()

    def flush(self) -> None:
        """Write all buffered lines, and return when they are written, by this thread or another one."""
        if not self._lines and not self._writing:
            return
        with self._lock:
            self._writing = True
            text: list[str] = []
            try:
                with suppress(IndexError):
                    while True:
                        text.append(self._lines.popleft())
                if text:
                    self._write("".join(text))
            finally:
                self._writing = False

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
