"""Keeps what a job prints between its log lines: buffered lines are written before any other text.

Lines at INFO wait in a buffer for up to 20 ms, and a `print` does not. Both standard streams may be the same terminal
or file, so the buffer is written before a write to either of them. Printed lines are written immediately, also to a
pipe. Code that writes to the file descriptor itself, such as a subprocess, does not take this path.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TextIO


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
