"""Writes log lines to a stream. A full pipe blocks only the thread that writes to it, neither jobs nor a stop.

Lines are bytes for `os.write`, not for the buffered stream: a thread that waits for room would hold the stream's lock,
and the interpreter could not exit.
"""

from __future__ import annotations

import os
import select
import stat
import sys
import threading
import time
from collections.abc import Callable
from logging.handlers import QueueListener
from queue import SimpleQueue
from typing import Any, TextIO, cast

#: Writes of up to this size to a pipe are atomic, so that lines of several processes do not mix.
PIECE_BYTES = 4096
#: Lines that arrive within this time are written together.
TICK_SECONDS = 0.02
#: Longest queue of lines: a megabyte of them.
MAX_LINES = 10_000
#: Name of the threads of writers.
WRITER = "offsider-log"


class Output:
    """Writes text to a stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._number = _descriptor(stream)
        # A file has room for everything, and each piece costs a wait for the interpreter's lock.
        self._piece_bytes = sys.maxsize if self._number is None or _is_file(self._number) else PIECE_BYTES

    def has_room(self) -> bool:
        """Return whether a piece can be written without blocking, or would raise its error."""
        if self._number is None:
            return True
        poller = select.poll()
        poller.register(self._number, select.POLLOUT)
        return bool(poller.poll(0))

    def write_now(self, text: str) -> str:
        """Write whole lines while this does not block, and return the others.

        Raises:
            OSError: the stream is broken.
        """
        pieces = _pieces(self._encoded(text), self._piece_bytes)
        while pieces and len(pieces[0]) <= self._piece_bytes and self.has_room():
            self._write(pieces.pop(0))
        return b"".join(pieces).decode(self._encoding)

    def write(self, text: str) -> None:
        """Write whole lines; blocks while the stream has no room.

        Raises:
            OSError: the stream is broken.
        """
        for piece in _pieces(self._encoded(text), self._piece_bytes):
            self._write(piece)

    @property
    def _encoding(self) -> str:
        return getattr(self._stream, "encoding", None) or "utf-8"

    def _encoded(self, text: str) -> bytes:
        return text.encode(self._encoding, "backslashreplace")

    def _write(self, piece: bytes) -> None:
        if self._number is None:
            self._stream.write(piece.decode(self._encoding))
            self._stream.flush()
            return
        while piece:
            piece = piece[os.write(self._number, piece) :]  # the rest of it


class LineQueue:
    """Lines that wait for their writer, in the form of a queue for `QueueListener`; one item is the text of a batch.

    Appending to a list and cutting it are atomic, so `put_nowait` takes no lock: two lines of each job pass here.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        #: Wakes the writer. `_is_awake` is reset before the lines are taken, so that no line waits for the next one.
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._is_awake = self._is_closed = False
        self._state = threading.Condition()
        self._taken = self._dropped = 0
        self._is_blocked = False

    def put_nowait(self, line: str | None) -> None:
        """Add a line, or drop and count it if the queue is full; None, the listener's sentinel, ends the writer."""
        if line is None:
            self._is_closed = True
            self._wakes.put(None)  # for the last lines
            self._wakes.put(None)  # for the end
        elif len(self._lines) < MAX_LINES:
            self._lines.append(line)
            if not self._is_awake:
                self._is_awake = True
                self._wakes.put(None)
        else:
            with self._state:
                self._dropped += 1

    def get(self, block: bool = True) -> str | None:  # noqa: FBT001, FBT002  # as QueueListener calls it
        """Wait for lines and return their text; None at the end."""
        self._wakes.get(block)
        if not self._is_closed:
            time.sleep(TICK_SECONDS)
        self._is_awake = False
        batch = self._lines[:]
        if not batch and self._is_closed:
            return None
        self._taken = len(batch)
        del self._lines[: len(batch)]
        return "".join(batch)

    def task_done(self) -> None:
        """Note that the last batch is written."""
        with self._state:
            self._taken = 0
            self._is_blocked = False
            self._state.notify_all()

    def take_dropped(self) -> int:
        """Return how many lines were dropped since the last call."""
        with self._state:
            dropped, self._dropped = self._dropped, 0
        return dropped

    def join(self, seconds: float) -> bool:
        """Wait until all lines are written; False if they are not. After that, waits again when a batch is written."""
        with self._state:
            wait_seconds = 0.0 if self._is_blocked else seconds
            written = self._state.wait_for(lambda: not (self._lines or self._taken), wait_seconds)
            self._is_blocked = not written
        return written


class Writer(QueueListener):
    """Writes the lines of a queue, in a daemon thread.

    Args:
        write: writes the text of several lines.
    """

    def __init__(self, queue: LineQueue, write: Callable[[str], None]) -> None:
        super().__init__(queue)
        self._write = write

    def start(self) -> None:
        """Start the thread."""
        super().start()
        cast("threading.Thread", self._thread).name = WRITER

    def handle(self, record: Any) -> None:
        """Write a batch, which is a text and not a record."""
        self._write(record)


def _descriptor(stream: TextIO) -> int | None:
    if not hasattr(select, "poll"):  # Windows, which has no workers
        return None
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):  # no file
        return None


def _is_file(number: int | None) -> bool:
    try:
        return number is not None and stat.S_ISREG(os.fstat(number).st_mode)
    except OSError:  # closed: writing raises its error
        return False


def _pieces(data: bytes, size: int) -> list[bytes]:
    """Split data into pieces of whole lines, up to ``size`` bytes each; a longer line is a piece of its own."""
    if len(data) <= size:
        return [data]
    pieces: list[bytes] = [b""]
    for line in data.splitlines(keepends=True):
        if len(pieces[-1]) + len(line) > size:
            pieces.append(b"")
        pieces[-1] += line
    return pieces
