"""Writes log lines to a stream without blocking the worker when the reader stops reading.

1. A pipe, a socket or a terminal is written in non-blocking mode, through a separate descriptor.
2. When it is full, the first writer waits up to PATIENCE_SECONDS for room. After that no writer waits: up to MOST_BYTES
   are buffered, and further lines are dropped and counted.
3. When there is room again, the buffer is written, then a line with the number of dropped lines.

Files, and streams without a descriptor, are written directly: they do not fill up in this way.
"""

from __future__ import annotations

import os
import select
import socket
import stat
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from offsider.logs.print_order import plain_write
from offsider.runtime.forks import here

PATIENCE_SECONDS = 1.0
MOST_BYTES = 1_000_000
#: Writes up to this size are atomic, so that lines of several processes do not mix.
PIECE_BYTES = 4096


class Outlet:
    """Writes text to a stream. Not thread-safe: call it from one thread at a time.

    Args:
        stream: the log stream.
        about_dropped: returns the line that reports the number of dropped lines.
    """

    def __init__(self, stream: TextIO, about_dropped: Callable[[int], str]) -> None:
        self._stream = stream
        self._about_dropped = about_dropped
        self._forget()
        self._own: int | socket.socket | None = None
        self._send = self._sender()

    def _forget(self) -> None:
        self._pid = here.pid
        self._pieces: deque[bytes] = deque()
        self._bytes = 0
        self._dropped = 0
        self._stuck = False

    def write(self, text: str) -> None:
        """Write whole lines; buffer or drop them while the stream is full.

        Raises:
            OSError: the stream is broken.
        """
        encoding: str = getattr(self._stream, "encoding", None) or "utf-8"
        data = text.encode(encoding, "backslashreplace")
        if self._send is None:
            plain_write(self._stream)(data.decode(encoding))
            self._stream.flush()
            return
        if self._pid != here.pid:  # forked child: the buffer belongs to the parent
            self._forget()
        for piece in _pieces(data):
            if self._dropped or self._bytes + len(piece) > MOST_BYTES:  # drop in one gap, at the end of the buffer
                self._dropped += piece.count(b"\n")
                continue
            self._pieces.append(piece)
            self._bytes += len(piece)
        self.drain()

    def drain(self) -> None:
        """Write the buffer while the stream has room."""
        while self._pieces and self._drained(self._pieces[0]):
            continue
        if self._dropped and not self._pieces:
            dropped, self._dropped = self._dropped, 0
            self.write(self._about_dropped(dropped))

    def _drained(self, piece: bytes) -> bool:
        """Whether the piece was written, at least in part."""
        if self._send is None:
            return False
        try:
            sent = self._send(piece)
        except BlockingIOError:
            patience_seconds = 0.0 if self._stuck else PATIENCE_SECONDS
            self._stuck = not self._has_room(patience_seconds)
            return not self._stuck
        self._stuck = False
        self._bytes -= sent
        if sent == len(piece):
            self._pieces.popleft()
        else:
            self._pieces[0] = piece[sent:]
        return True

    def close(self) -> None:
        """Close the separate descriptor."""
        own, self._own, self._send = self._own, None, None
        if isinstance(own, socket.socket):
            own.close()
        elif own is not None:
            os.close(own)

    def _sender(self) -> Callable[[bytes], int] | None:
        """The function that writes without blocking; None for a stream that never fills up."""
        if not hasattr(select, "poll"):  # Windows, which has no workers
            return None
        try:
            number = self._stream.fileno()
            mode = os.fstat(number).st_mode
        except (OSError, ValueError, AttributeError):  # no descriptor
            return None
        if stat.S_ISSOCK(mode):
            end = self._own = socket.socket(fileno=os.dup(number))
            return lambda data: end.send(data, socket.MSG_DONTWAIT)
        if not (stat.S_ISFIFO(mode) or os.isatty(number)):
            return None
        with suppress(OSError):
            # A separate open file: setting O_NONBLOCK on the stream itself would affect every process that shares it.
            own = self._own = os.open(f"/proc/self/fd/{number}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
            return lambda data: os.write(own, data)
        return lambda data: _write_if_room(number, data)

    def _has_room(self, seconds: float) -> bool:
        poller = select.poll()
        poller.register(self._stream.fileno(), select.POLLOUT)
        return bool(poller.poll(seconds * 1000))


def _pieces(data: bytes) -> list[bytes]:
    """Split data into pieces of whole lines, up to PIECE_BYTES each; a longer line is a piece of its own."""
    if len(data) <= PIECE_BYTES:
        return [data] if data else []
    pieces: list[bytes] = [b""]
    for line in data.splitlines(keepends=True):
        if len(pieces[-1]) + len(line) > PIECE_BYTES:
            pieces.append(b"")
        pieces[-1] += line
    return [piece for piece in pieces if piece]


def _write_if_room(number: int, data: bytes) -> int:
    """Write up to one piece, for systems without /proc and pipes of other users; room means at least one piece."""
    poller = select.poll()
    poller.register(number, select.POLLOUT)
    if not poller.poll(0):
        raise BlockingIOError
    return os.write(number, data[:PIECE_BYTES])
