"""Start a worker, and prepare its process: by a fork of the parent, by the fork server, or by exec.

1. With several workers, the fork server forks them: they share the memory of the application, which it has loaded.
2. A single worker is forked from the parent, which has one thread and no code of the application. If it is restarted,
   its successor is executed as a new program.
3. Workers are executed as new programs on macOS, whose libraries do not survive a fork, and if the application starts
   threads while it is imported: a fork copies their locks but not the threads.
4. The worker reseeds its random numbers, and has its own identity and connections (`worker_process.py`).
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from offsider.cli.forks import fork
from offsider.cli.parent.fork_server import ForkServer, serve
from offsider.cli.parent.worker_process import VARIABLE, command, live
from offsider.logs.setup import logger
from offsider.worker.alive.parent_link import WorkerLink, make_link
from offsider.worker.memory import MemoryWatch

if TYPE_CHECKING:
    from offsider.cli.options import WorkerOptions


@dataclass
class Child:
    """The parent's record of one worker.

    Attributes:
        slot: index among the workers, from 0.
        pid: ID of its process.
        link: the parent's end.
        born_at: start time by the monotonic clock.
        memory: watches how long it has exceeded a memory limit.
        kill_at: when to kill it, by the same clock; None without a deadline.
        closed_at: when it was first seen that it has closed its link; None while the link is open.
    """

    slot: int
    pid: int
    link: WorkerLink
    born_at: float
    memory: MemoryWatch = field(default_factory=MemoryWatch)
    kill_at: float | None = None
    closed_at: float | None = None

    @property
    def ready(self) -> bool:
        return self.link.stop_seconds is not None

    def send(self, name: str) -> None:
        """Send a signal. The pid cannot belong to another process before we have reaped this one."""
        with suppress(ProcessLookupError):  # without a subreaper, init may have reaped a worker of a dead fork server
            os.kill(self.pid, getattr(signal, f"SIG{name}"))


class Starter:
    """Starts workers.

    Args:
        options: the command line.
        server: the fork server; None if the workers are started without one.
        release: closes, in a forked process, everything that only the parent uses.
    """

    def __init__(self, options: WorkerOptions, server: ForkServer | None, release: Callable[[], None]) -> None:
        self.options = options
        self.server = server
        self._release = release
        self._executes = sys.platform == "darwin"
        if server is not None and self._executes:
            self._execute("forked processes are not safe on macOS")

    def _execute(self, reason: str) -> None:
        logger.warning("each worker loads the application by itself and shares no memory with the others: %s", reason)
        self._executes, self.server = True, None

    def tend(self, now: float) -> None:
        """Start the fork server if it is due, and read its messages."""
        server = self.server
        if server is None:
            return
        if now >= server.start_at:
            self._fork_server(server)
        server.listen()
        if server.threads:
            self._execute(f"it started threads while it was imported ({', '.join(server.threads)})")
            server.close()

    @property
    def can_start(self) -> bool:
        """Whether a worker can be started now."""
        return self.server is None or self.server.loaded

    def start(self, slot: int) -> Child | None:
        """Start a worker for a slot; None if that failed, for a reason that is logged."""
        link, end = make_link()
        with end:
            if self.server is not None:
                pid = self.server.start(end)
            elif self._executes:
                pid = self._exec(end)
            else:
                pid = self._fork(link, lambda: live(self.options, end))
                # A later worker must not mix the modules of this program with those of a newer release.
                self._executes = True
        if pid is None:
            link.close()
            return None
        return Child(slot, pid, link, time.monotonic())

    def _fork_server(self, server: ForkServer) -> None:
        parents, servers = socket.socketpair()
        with servers:
            pid = self._fork(parents, lambda: serve(self.options, servers))
        server.started(pid, parents)

    def _fork(self, parents: socket.socket | WorkerLink, run: Callable[[], NoReturn]) -> int | None:
        """Fork this process as `fork` does; the child closes the parent's end, and calls ``run``."""

        def release() -> None:
            parents.close()
            self._release()

        return fork(release, run)

    def _exec(self, end: socket.socket) -> int | None:
        end.set_inheritable(True)
        try:
            words = command()
            return os.posix_spawnp(words[0], words, {**os.environ, VARIABLE: str(end.fileno())}, setsigmask=())
        except OSError as error:  # the program is missing, or there are too many processes
            logger.error("cannot execute a worker, trying again: %s", error)
            return None
