"""Start a worker, and prepare its process: by a fork of the parent, by the fork server, or by exec.

1. With several workers, the fork server forks them: they share the memory of the application, which it has loaded.
2. A single worker is forked from the parent, which has one thread and no code of the application.
3. Workers are executed as new programs on macOS, whose libraries do not survive a fork, and if the application starts
   threads while it is imported: a fork copies their locks but not the threads.
4. The worker reseeds its random numbers, and has its own identity and connections.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from offsider.cli import boot_signals
from offsider.cli.failure import flush_output, give_up
from offsider.cli.parent.fork_server import ForkServer, serve
from offsider.cli.start_folder import leave_removed_folder
from offsider.core.errors import OffsiderError
from offsider.logs.setup import logger
from offsider.worker.alive.parent_link import ParentLink, WorkerLink, make_link
from offsider.worker.memory_limits import MemoryWatch

if TYPE_CHECKING:
    from offsider.cli.options import WorkerOptions
    from offsider.config.config import Config

# systemd accepts notifications of the parent only.
OF_THE_PARENT = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
#: The descriptor of the link of an executed worker.
VARIABLE = "OFFSIDER_EXECUTED_WORKER"


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
    memory: MemoryWatch
    kill_at: float | None = None
    closed_at: float | None = None

    @property
    def ready(self) -> bool:
        return self.link.stop_seconds is not None

    def send(self, name: str) -> None:
        """Send a signal. The pid cannot belong to another process before we have reaped this one."""
        os.kill(self.pid, getattr(signal, f"SIG{name}"))


class Starter:
    """Starts workers.

    Args:
        options: the command line.
        config: the configuration before the application is imported.
        server: the fork server; None if the workers are started without one.
        release: closes, in a forked process, everything that only the parent uses.
    """

    def __init__(
        self, options: WorkerOptions, config: Config, server: ForkServer | None, release: Callable[[], None]
    ) -> None:
        self.options = options
        self._config = config
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
        if server.due(now):
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
        """Start a worker for a slot; None if the fork server has just died."""
        link, end = make_link()
        with end:
            if self.server is not None:
                pid = self.server.start(end)
            elif self._executes:
                pid = self._exec(end)
            else:
                pid = self._fork(link.close, lambda: live(self.options, end))
        if not pid:
            link.close()
            return None
        return self.adopt(slot, pid, link, time.monotonic())

    def adopt(self, slot: int, pid: int, link: WorkerLink, born_at: float) -> Child:
        """Return a running worker, of this program or of the previous program in this process."""
        return Child(slot, pid, link, born_at, MemoryWatch(self._config.worker.memory_max_mb))

    def _fork_server(self, server: ForkServer) -> None:
        parents, servers = socket.socketpair()
        with servers:
            pid = self._fork(parents.close, lambda: serve(self.options, servers))
        server.started(pid, parents)

    def _fork(self, close: Callable[[], None], run: Callable[[], NoReturn]) -> int:
        """Fork this process, and return the pid of the child, which calls ``close`` and ``run``."""
        flush_output()
        pid = fork(self._release)
        if pid == 0:
            close()
            run()
        return pid

    def _exec(self, end: socket.socket) -> int:
        end.set_inheritable(True)
        words = command()
        return os.posix_spawnp(words[0], words, {**os.environ, VARIABLE: str(end.fileno())}, setsigmask=())


def fork(release: Callable[[], None]) -> int:
    """Fork this process; in the child call ``release`` while signals are blocked, and end on TERM and INT from then on.

    Without the block, Python's own handler of INT would raise in a hook of the fork.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        pid = os.fork()
        if pid == 0:
            release()
            boot_signals.install()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return pid


def live(options: WorkerOptions, end: socket.socket, preloaded: Config | None = None) -> NoReturn:
    """Run a worker in this process, to its end.

    Args:
        end: the socket of the worker's end of the link.
        preloaded: the configuration of the application that this process has inherited; None to load it.
    """
    from offsider.cli.run_worker import run_worker  # the parent would keep it in memory

    try:
        leave_removed_folder()
        for name in (*OF_THE_PARENT, VARIABLE):
            os.environ.pop(name, None)
        if preloaded is not None:
            preloaded.random.seed()
        code = run_worker(options, ParentLink(end), preloaded)
    except OffsiderError as error:
        code = give_up(str(error), error, verbose=options.verbose)
    except KeyboardInterrupt:  # a second Ctrl-C, while the boot ends after the first one
        code = 0
    except BaseException:  # noqa: BLE001  # it must not reach the parent's code, which called this
        traceback.print_exc()
        code = 1
    flush_output()
    os._exit(code)


def executed(options: WorkerOptions) -> None:
    """Run the worker that `Starter` has executed in this process; return if this is another process."""
    descriptor = os.environ.get(VARIABLE, "")
    if descriptor:
        end = socket.socket(fileno=int(descriptor))
        end.set_inheritable(False)
        live(options, end)


def command() -> list[str]:
    """Return the command line of this process, with the interpreter of the new release."""
    program, *words = sys.orig_argv
    folder, script = Path(sys.executable).parent, Path(words[0])
    if script.name != words[0] and script.parent.is_dir() and os.path.samefile(script.parent, folder):  # noqa: PTH121
        return words  # a console script beside its interpreter, whose path is in the first line of the script
    return [program if os.sep in program and os.access(program, os.X_OK) else sys.executable, *words]
