"""Seeing processes end: by a pidfd, which the kernel makes readable at the end, or by looking each half second.

A process that is seen to have ended is proven dead: its threads are gone, also when nobody has reaped it yet (pidfd),
or it is gone altogether (looking).
"""

from __future__ import annotations

import os
from contextlib import suppress

LOOK_SECONDS = 0.5


class Ending:
    """The end of one process, which lives when this is made.

    Attributes:
        pid: of the process.
        fd: readable once it has ended; None where the system has no such thing, and once the end was seen.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.fd = _pidfd(pid)
        self._ended = False

    @property
    def must_look(self) -> bool:
        """Whether nothing but looking tells the end."""
        return self.fd is None and not self._ended

    def seen(self) -> bool:
        """Whether the process has ended."""
        self._ended = self._ended or self._look()
        return self._ended

    def _look(self) -> bool:
        if self.fd is not None:
            return _readable(self.fd)
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


def _pidfd(pid: int) -> int | None:
    opener = getattr(os, "pidfd_open", None)  # Linux
    if opener is None:
        return None
    with suppress(OSError):  # an older kernel, a sandbox, or it has ended: then `seen` looks
        return int(opener(pid))
    return None


def _readable(fd: int) -> bool:
    import select  # POSIX only in this use

    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(0))
