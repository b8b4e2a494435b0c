"""A pipe that wakes a thread which waits on sockets."""

from __future__ import annotations

import os
import threading


class WakePipe:
    """The pipe of one waiting thread; any thread may call `end`. The pipe is created at the first `open`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended = False
        self._pipe: tuple[int, int] | None = None

    def open(self) -> int | None:
        """Return the file descriptor to wait on together with the sockets; None after `end`."""
        with self._lock:
            if self._ended:
                return None
            if self._pipe is None:
                self._pipe = os.pipe()
            return self._pipe[0]

    def end(self) -> None:
        """Wake the thread now, and at once in all later waits."""
        with self._lock:
            self._ended = True
            if self._pipe is not None:
                os.write(self._pipe[1], b"!")

    def close(self) -> None:
        """Close the pipe. Called by the waiting thread, which must not wait on it afterwards."""
        with self._lock:
            self._ended = True
            pipe, self._pipe = self._pipe, None
        for end in pipe or ():
            os.close(end)
