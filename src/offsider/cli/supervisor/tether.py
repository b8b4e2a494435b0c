"""What ties a worker to its supervisor: a pair of sockets, and the kernel's word where it gives one.

1. The worker writes one line when it runs: ``ready`` and the seconds that a stop may take.
2. When the supervisor dies, in whatever way, the worker gets a TERM: from the kernel on Linux, elsewhere from a thread
   that sees the sockets close.
3. The supervisor's end survives an exec: the next supervisor goes on with it.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from contextlib import suppress

PR_SET_PDEATHSIG = 1


class Tether:
    """The supervisor's end.

    Attributes:
        stop_seconds: how long the worker's stop may take, as it told; None before it runs.
    """

    def __init__(self, end: socket.socket, *, stop_seconds: float | None = None) -> None:
        self._end = end
        self._end.setblocking(False)
        self._heard = b""
        self.stop_seconds = stop_seconds

    @property
    def ready(self) -> bool:
        """Whether the worker runs."""
        return self.stop_seconds is not None

    def fileno(self) -> int:
        return self._end.fileno()

    def listen(self) -> bool:
        """Read what the worker has told; False when it tells nothing more."""
        try:
            told = self._end.recv(4096)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        self._heard += told
        word, _, seconds = self._heard.partition(b"\n")[0].partition(b" ")
        if word == b"ready" and b"\n" in self._heard:
            with suppress(ValueError):
                self.stop_seconds = float(seconds)
        return bool(told)

    def bequeath(self) -> int:
        """The number under which the next program of this process finds this end."""
        self._end.set_inheritable(True)
        return self._end.fileno()

    @classmethod
    def inherit(cls, fd: int, stop_seconds: float | None) -> Tether:
        """The end that `bequeath` has numbered."""
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
        """End with the supervisor from now on."""
        if not _asked_the_kernel():
            threading.Thread(target=self._watch, name="offsider-tether", daemon=True).start()
        if os.getppid() != self._supervisor_pid:  # it died before we asked
            os.kill(os.getpid(), signal.SIGTERM)

    def say_ready(self, stop_seconds: float) -> None:
        """The worker runs, and its stop takes at most so long."""
        with suppress(OSError):  # the supervisor has gone, and a TERM is under way
            self._end.sendall(b"ready %a\n" % stop_seconds)

    def _watch(self) -> None:
        while self._end.recv(1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    def close(self) -> None:
        self._end.close()


def make_tether() -> tuple[Tether, WorkerEnd]:
    """Both ends, made by the supervisor before it forks."""
    supervisors, workers = socket.socketpair()
    return Tether(supervisors), WorkerEnd(workers, os.getpid())


def _asked_the_kernel() -> bool:
    if not sys.platform.startswith("linux"):
        return False
    import ctypes  # in the worker alone, and Linux alone

    try:
        return bool(ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0) == 0)
    except (AttributeError, OSError):
        return False
