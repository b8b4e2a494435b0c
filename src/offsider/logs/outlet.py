"""Writes log lines to a stream without blocking the worker when the reader stops reading.

1. A pipe, a socket or a terminal is written in non-blocking mode, through a separate descriptor.
2. When it is full, the first writer waits up to PATIENCE_SECONDS for room. After that no writer waits: up to MOST_BYTES
   are buffered, and further lines are dropped and counted.
3. When there is room again, the buffer is written, then a line with the number of dropped lines.

Files, and streams without a descriptor, are written directly: they do not fill up in this way.
"""

from __future__ import annotations

import atexit
import os
import select
import socket
import stat
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import TextIO

from offsider.runtime.forks import here

# ----------------------------------------------------------------------------------------------------
# Keeps what a job prints between its log lines: buffered lines are written before any other text.
#
# Lines at INFO wait in a buffer for up to 20 ms, and a `print` does not. Both standard streams may be the same terminal
# or file, so the buffer is written before a write to either of them. Printed lines are written immediately, also to a
# pipe. Code that writes to the file descriptor itself, such as a subprocess, does not take this path.


class FlushingWrite:
    """The method ``write`` of a stream, which first calls ``flush``.

    Args:
        plain: the stream's own method.
        flush: writes the buffered lines; fast if there are none.
    """

    def __init__(self, plain: Callable[[str], int], flush: Callable[[], None]) -> None:
        self.plain = plain
        self._flush = flush

    def __call__(self, text: str) -> int:
        self._flush()
        return self.plain(text)


def flush_before_writes(stream: TextIO, flush: Callable[[], None]) -> None:
    """Call ``flush`` before each write to the stream, instead of the ``flush`` of an earlier call.

    The stream itself remains, because the application's log handlers may have it already.
    """
    with suppress(AttributeError, ValueError):  # not a text file; closed
        stream.reconfigure(line_buffering=True)  # type: ignore[attr-defined]
    with suppress(TypeError, AttributeError):  # an object without attributes of its own; None
        vars(stream)["write"] = FlushingWrite(plain_write(stream), flush)


def plain_write(stream: TextIO) -> Callable[[str], int]:
    """Return the stream's own ``write``, which flushes nothing: the log itself uses it."""
    write = stream.write
    return write.plain if isinstance(write, FlushingWrite) else write


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


# ----------------------------------------------------------------------------------------------------
# Buffers formatted log lines, and writes them together every 20 ms.
#
# 1. `put` adds a line and wakes the writer, a daemon thread that sleeps while the buffer is empty.
# 2. A tick later the writer writes all lines in one piece. `flush` writes them immediately: before any other write to
#    the stream, and at the end of the process.
# 3. If the writer does not keep up, the thread that adds the ten-thousandth line writes the buffer.
# 4. ``kill -9`` loses the lines of the last tick, so only lines at INFO are buffered.

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
