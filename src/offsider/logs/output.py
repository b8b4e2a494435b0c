"""Writes log lines to a stream, so that a full pipe blocks neither jobs nor the stop of a worker.

Lines are bytes for `os.write`, not for the buffered stream: a thread that waits for room would hold the stream's lock,
and the interpreter could not exit.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from logging.handlers import QueueListener
from queue import SimpleQueue
from threading import Event
from typing import Any, TextIO, TypeAlias

#: Writes of up to this size are atomic, so that lines of several processes do not mix.
PIECE_BYTES = 4096
#: Lines that arrive within this time are written together.
TICK_SECONDS = 0.02

#: Lines; an event to set when all lines before it are written; None, QueueListener's sentinel, to end the thread.
Lines: TypeAlias = "SimpleQueue[str | Event | None]"


class Output:
    """Writes text to a stream, as far as it has room."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._number = _descriptor(stream)

    def write(self, text: str, patience_seconds: float | None) -> bool:
        """Write whole lines, and return whether all of them were written.

        Args:
            text: the lines.
            patience_seconds: longest wait for room; None: without a limit.

        Raises:
            OSError: the stream is broken.
        """
        encoding: str = getattr(self._stream, "encoding", None) or "utf-8"
        data = text.encode(encoding, "backslashreplace")
        if self._number is None:
            self._stream.write(data.decode(encoding))
            self._stream.flush()
            return True
        for piece in _pieces(data):
            while piece:
                if not _has_room(self._number, patience_seconds):
                    return False
                piece = piece[os.write(self._number, piece[:PIECE_BYTES]) :]  # noqa: PLW2901  # the rest of it
        return True


class Writer(QueueListener):
    """Writes the lines of a queue, in a daemon thread.

    Args:
        write: writes the text of several lines.
    """

    def __init__(self, queue: Lines, write: Callable[[str], None]) -> None:
        super().__init__(queue)
        self._lines = queue
        self._write = write

    def handle(self, record: Any) -> None:  # each item of the queue, not a record
        """Write everything that the queue contains after a tick."""
        if isinstance(record, str):
            time.sleep(TICK_SECONDS)
        items = [record, *(self._lines.get() for _ in range(self._lines.qsize()))]
        if text := "".join(item for item in items if isinstance(item, str)):
            self._write(text)
        for item in items:
            if isinstance(item, Event):
                item.set()


def _descriptor(stream: TextIO) -> int | None:
    if not hasattr(select, "poll"):  # Windows, which has no workers
        return None
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):  # no file
        return None


def _has_room(number: int, seconds: float | None) -> bool:
    """Return whether a piece can be written without blocking. A broken stream has room: writing raises its error."""
    poller = select.poll()
    poller.register(number, select.POLLOUT)
    return bool(poller.poll(None if seconds is None else seconds * 1000))


def _pieces(data: bytes) -> list[bytes]:
    """Split data into pieces of whole lines, up to PIECE_BYTES each; a longer line is a piece of its own."""
    if len(data) <= PIECE_BYTES:
        return [data]
    pieces: list[bytes] = [b""]
    for line in data.splitlines(keepends=True):
        if len(pieces[-1]) + len(line) > PIECE_BYTES:
            pieces.append(b"")
        pieces[-1] += line
    return pieces
