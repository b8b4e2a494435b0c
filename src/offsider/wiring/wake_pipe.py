"""What ends a sleep on sockets from another thread: a pipe that is watched with them."""

from __future__ import annotations

import os
import threading


class WakePipe:
    """One for one thread that sleeps; `end` may be called by any. It is made when it is first slept at."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended = False
        self._pipe: tuple[int, int] | None = None

    def open(self) -> int | None:
        """What to watch; None after the end."""
        with self._lock:
            if self._ended:
                return None
            if self._pipe is None:
                self._pipe = os.pipe()
            return self._pipe[0]

    def end(self) -> None:
        """End the sleep, and every later one."""
        with self._lock:
            self._ended = True
            if self._pipe is not None:
                os.write(self._pipe[1], b"!")

    def close(self) -> None:
        """For the thread that sleeps here, when it does so no more."""
        with self._lock:
            self._ended = True
            pipe, self._pipe = self._pipe, None
        for end in pipe or ():
            os.close(end)
