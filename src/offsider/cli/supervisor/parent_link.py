"""The link between a worker and its supervisor: a socket pair, and a death signal from the kernel on Linux.

1. When the worker is ready, it writes one line: ``ready`` and the maximum duration of its stop in seconds.
2. When the supervisor dies, for any reason, the worker receives TERM: from the kernel on Linux, elsewhere from a thread
   that detects the closed socket.
3. The supervisor's end survives an exec: the next supervisor continues to use it.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from contextlib import suppress

PR_SET_PDEATHSIG = 1


class ParentLink:
    """The supervisor's end.

    Attributes:
        stop_seconds: maximum duration of a stop that the worker reported; None until it is ready.
    """

    def __init__(self, end: socket.socket, *, stop_seconds: float | None = None) -> None:
        self._end = end
        self._end.setblocking(False)
        self._heard = b""
        self.stop_seconds = stop_seconds

    @property
    def ready(self) -> bool:
        """Whether the worker has reported that it is ready."""
        return self.stop_seconds is not None

    def fileno(self) -> int:
        return self._end.fileno()

    def listen(self) -> bool:
        """Read the worker's messages; return False after it has closed its end."""
        try:
            received = self._end.recv(4096)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        self._heard += received
        word, _, seconds = self._heard.partition(b"\n")[0].partition(b" ")
        if word == b"ready" and b"\n" in self._heard:
            with suppress(ValueError):
                self.stop_seconds = float(seconds)
        return bool(received)

    def bequeath(self) -> int:
        """Return the file descriptor for the next program of this process."""
        self._end.set_inheritable(True)
        return self._end.fileno()

    @classmethod
    def inherit(cls, fd: int, stop_seconds: float | None) -> ParentLink:
        """Restore the end from a file descriptor of `bequeath`."""
        end = socket.socket(fileno=fd)
        end.set_inheritable(False)
        return cls(end, stop_seconds=stop_seconds)

    def close(self) -> None:
        self._end.close()


class WorkerEnd:
    """The worker's end."""

    def __init__(self, end: socket.socket, supervisor_pid: int) -> None:
        self._end = end
        self._supervisor_pid = supervisor_pid

    def tie(self) -> None:
        """From now on, receive TERM when the supervisor dies."""
        if not _set_death_signal():
            threading.Thread(target=self._watch, name="offsider-parent_link", daemon=True).start()
        if os.getppid() != self._supervisor_pid:  # it died before the request
            os.kill(os.getpid(), signal.SIGTERM)

    def say_ready(self, stop_seconds: float) -> None:
        """Report that the worker is ready, and that its stop takes at most `stop_seconds`."""
        with suppress(OSError):  # the supervisor has died, and a TERM will arrive
            self._end.sendall(b"ready %a\n" % stop_seconds)

    def _watch(self) -> None:
        while self._end.recv(1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    def close(self) -> None:
        self._end.close()


def make_parent_link() -> tuple[ParentLink, WorkerEnd]:
    """Create both ends, in the supervisor before it forks."""
    supervisors, workers = socket.socketpair()
    return ParentLink(supervisors), WorkerEnd(workers, os.getpid())


def _set_death_signal() -> bool:
    if not sys.platform.startswith("linux"):
        return False
    import ctypes  # needed in workers on Linux only

    try:
        return bool(ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0) == 0)
    except (AttributeError, OSError):
        return False
