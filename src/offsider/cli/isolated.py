"""The fork server of isolated jobs: a process without threads that a worker forks before it starts its own.

The worker asks for a child, and passes the child's end of its link, and pipes for its exit status and its stack.
When a child has ended, the server writes the status, and closes the link, also for processes that the child has left.
When the worker has ended, the server kills the children, and exits.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from offsider.cli.forks import fork, other_threads
from offsider.cli.status import title_setter
from offsider.core.errors import ConfigurationError, OffsiderError
from offsider.jobs.registry import all_jobs
from offsider.worker.run.isolated import REQUEST, IsolatedChildren
from offsider.worker.run.isolated_child import IsolatedChild
from offsider.worker.run.library_times import measure_loaded

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsider.config.config import Config

_PR_SET_PDEATHSIG = 1
#: Signals of a terminal and of operators for the worker.
_IGNORED = ("INT", "HUP", "TERM", "TSTP", "TTIN", "USR1", "USR2", "QUIT", "CONT")


def children_for(config: Config, release: Callable[[], None]) -> IsolatedChildren | None:
    """Fork the server if a job or a capsule is isolated; None if none is.

    Args:
        release: called in the server, to close what belongs to the worker.

    Raises:
        ConfigurationError: the application has started threads, or the system has no room for a process.
    """
    isolated = [job.name for job in all_jobs() if job.isolated]
    isolated += [f"capsule {capsule.name}" for capsule in config.capsules.values() if capsule.settings.isolated]
    if not isolated:
        return None
    threads = other_threads()
    if threads:
        raise ConfigurationError(
            f"{isolated[0]} is isolated, but the application has started threads ({', '.join(threads)}), and a fork "
            "would copy their locks: start them in a handler of the event startup"
        )
    ours, theirs = socket.socketpair()

    def released() -> None:
        ours.close()
        release()

    with theirs:
        if fork(released, lambda: _ForkingProcess(theirs, config).run()) is None:
            raise ConfigurationError(f"{isolated[0]} is isolated, but the system has no room for another process")
    return IsolatedChildren(ours)


class _ForkingProcess:
    """The loop of the server.

    Attributes:
        _children: by pid, the number, the end of the link and the pipe for the status of each child.
    """

    def __init__(self, link: socket.socket, config: Config) -> None:
        self._link = link
        self._config = config
        self._children: dict[int, tuple[int, socket.socket, int]] = {}
        self._woken, self._wakes = os.pipe()

    def run(self) -> NoReturn:
        for name in _IGNORED:
            signal.signal(getattr(signal, f"SIG{name}"), signal.SIG_IGN)
        for end in (self._woken, self._wakes):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        title_setter()("offsider fork server of isolated jobs")
        self._config.freeze()
        with suppress(OffsiderError):  # the worker reports it
            for job in all_jobs():
                job.check(self._config)
        measure_loaded()
        gc.collect()
        gc.freeze()
        with suppress(OSError):
            while self._served():
                pass
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)
        os._exit(0)

    def _served(self) -> bool:
        """Handle one request or some ends; False if the worker has ended."""
        ready, _, _ = select.select([self._link.fileno(), self._woken], [], [])
        if self._woken in ready:
            os.read(self._woken, 4096)
            self._reap()
        if self._link.fileno() not in ready:
            return True
        data, descriptors, _, _ = socket.recv_fds(self._link, REQUEST.size, 3)
        if len(data) < REQUEST.size:
            return False
        number, what = REQUEST.unpack(data)
        if what == 0:
            self._fork(number, socket.socket(fileno=descriptors[0]), descriptors[1], descriptors[2])
        else:
            for pid, (own, _, _) in self._children.items():
                if own == number:
                    os.kill(pid, what)
        return True

    def _fork(self, number: int, end: socket.socket, status: int, stack: int) -> None:
        for descriptor in (end.fileno(), status, stack):
            os.set_inheritable(descriptor, False)
        os.set_blocking(stack, False)  # a stack that does not fit is cut
        child = IsolatedChild(end, self._config)

        def release() -> None:
            signal.signal(signal.SIGTERM, child.raise_aimed)  # the server ignores it, and it may come before the run
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._link.close()
            for descriptor in (self._woken, self._wakes, status):
                os.close(descriptor)
            for _, other, other_status in self._children.values():
                other.close()
                os.close(other_status)

        pid = fork(release, lambda: _live(child, stack, self._config))
        os.close(stack)
        if pid is not None:
            self._children[pid] = (number, end, status)
            return
        with suppress(OSError):
            os.write(status, b"could not be forked: the system has no room for another process")
        os.close(status)
        end.close()

    def _reap(self) -> None:
        while self._children:
            try:
                pid, code = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            _, end, status = self._children.pop(pid)
            with suppress(OSError):  # the worker has left a child that ends by itself
                os.write(status, str(code).encode())
            os.close(status)
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def _live(child: IsolatedChild, stack: int, config: Config) -> NoReturn:
    """Run jobs in this process, a child, to its end."""
    try:
        faulthandler.register(signal.SIGTTIN, stack, all_threads=False)
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        title_setter()("offsider isolated jobs")
        config.random.seed()
        config.events.emit("fork", once=True)
        child.live()
    finally:
        os._exit(1)
