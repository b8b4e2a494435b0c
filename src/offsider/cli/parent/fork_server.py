"""The fork server: it imports the application once, and forks the workers, which share its memory.

1. The parent asks for a worker and passes the socket of its link. The server forks, and replies with the pid.
2. When a worker exits, the server reports pid and exit status. It reaps the worker after the parent has acknowledged
   that, so that a signal of the parent cannot reach another process with the same pid.
3. If the server dies, its workers become children of the parent, which is a child subreaper, and continue. The parent
   starts another server. If the parent dies, the server exits.
4. A server whose application has started threads reports their names and exits: a fork would copy their locks only.

The server ignores all signals but KILL and STOP; the parent ends it by closing the connection, or kills it while the
application is imported.
"""

from __future__ import annotations

import array
import gc
import json
import os
import signal
import socket
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from offsider.cli.failure import flush_output, give_up
from offsider.cli.parent.backoff import Backoff, described
from offsider.cli.parent.worker_process import fork, live
from offsider.cli.signals import NAMES, SignalQueue
from offsider.cli.start_folder import leave_removed_folder
from offsider.cli.title import title_setter
from offsider.core.errors import OffsiderError
from offsider.logs.setup import logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsider.cli.options import WorkerOptions
    from offsider.config.config import Config

#: Maximum time for a fork. The parent handles no signals in the meantime.
FORK_SECONDS = 1.0
TASKS = Path("/proc/self/task")


@dataclass
class ForkServer:
    """The parent's end.

    Args:
        exited: called with the pid and the status of each worker that has exited, before it is reaped.

    Attributes:
        pid: 0 while it does not run.
        loaded: whether it has loaded the application, so that it can fork.
        failed: whether the first server could not load the application.
        threads: names of the threads that prevent a fork.
    """

    exited: Callable[[int, int], object]
    pid: int = 0
    loaded: bool = False
    failed: bool = False
    threads: list[str] = field(default_factory=list[str])
    _link: socket.socket | None = None
    _rest: bytes = b""
    _backoff: Backoff = field(default_factory=Backoff)
    _born_at: float = 0.0
    _start_at: float = 0.0
    _ever_loaded: bool = False

    def fileno(self) -> int:
        """Descriptor for a poll; -1 without a server."""
        return -1 if self._link is None else self._link.fileno()

    @property
    def start_at(self) -> float:
        """Time of the next start, by the monotonic clock; infinite while it runs."""
        return float("inf") if self.pid or self.failed else self._start_at

    def due(self, now: float) -> bool:
        """Whether it must be started."""
        return now >= self.start_at

    def started(self, pid: int, link: socket.socket) -> None:
        """Note the new server and the connection to it."""
        self.pid, self._link, self._rest = pid, link, b""
        self._born_at = time.monotonic()

    def start(self, end: socket.socket) -> int:
        """Fork a worker, and return its pid; 0 if the server has died or does not answer."""
        link = self._link
        if link is None:
            return 0
        try:
            link.setblocking(True)
            link.settimeout(FORK_SECONDS)
            socket.send_fds(link, [b'{"start": true}\n'], [end.fileno()])
            deadline = time.monotonic() + FORK_SECONDS
            while time.monotonic() < deadline:
                for message in self._received():
                    if "started" in message:
                        return int(message["started"])
                    self._handle(message)
        except OSError:
            pass
        # The link of a worker that it may have forked closes, so that worker stops.
        logger.error("the fork server (process %d) forks no worker: killing it", self.pid)
        self._kill()
        return 0

    def listen(self) -> None:
        """Handle the messages that have arrived."""
        if self._link is not None:
            self._link.setblocking(False)
            with suppress(OSError):
                for message in self._received():
                    self._handle(message)

    def _received(self) -> list[dict[str, Any]]:
        if self._link is None:
            return []
        data = self._link.recv(65536)
        if not data:
            raise ConnectionResetError
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def _handle(self, message: dict[str, Any]) -> None:
        if "loaded" in message:
            self.loaded = self._ever_loaded = True
            self.threads = message["loaded"]
        elif "exited" in message:
            pid, status = message["exited"]
            self.exited(pid, status)
            if self._link is not None:
                with suppress(OSError):
                    self._link.sendall(json.dumps({"reap": pid}).encode() + b"\n")

    def ended(self, status: int, *, restart: bool) -> None:
        """Note that the server has ended, and start another one later."""
        self.listen()
        self.close()
        self.pid = 0
        self.loaded = False
        if self.threads or not restart:
            return
        if not self._ever_loaded:
            self.failed = True
            return
        pause_seconds = self._backoff.pause_seconds(time.monotonic() - self._born_at)
        self._start_at = time.monotonic() + pause_seconds
        logger.error("the fork server %s; starting another one in %g s", described(status), pause_seconds)

    def _kill(self) -> None:
        self.loaded = False
        with suppress(ProcessLookupError):
            if self.pid:
                os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Close the connection, so that the server exits; its workers continue."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def stop(self) -> None:
        """End the server, also while the application is imported. Its workers continue, as children of the parent."""
        self._kill()
        self.close()


def serve(options: WorkerOptions, link: socket.socket) -> NoReturn:
    """Run the fork server in this process, to its end; its workers end it too."""
    work: Callable[[], NoReturn] | None = None
    code = 0
    try:
        work = _Server(options, link).run()
    except OffsiderError as error:
        code = give_up(str(error), error, verbose=options.verbose)
    except BaseException:  # noqa: BLE001  # it must not reach the parent's code, which called this
        traceback.print_exc()
        code = 1
    if work is not None:
        work()
    flush_output()
    os._exit(code)


class _Server:
    """The server's loop."""

    def __init__(self, options: WorkerOptions, link: socket.socket) -> None:
        self._options = options
        self._link = link
        self._signals = SignalQueue((*NAMES, "CHLD"), on_other=lambda _: None)
        self._workers: set[int] = set()
        self._rest = b""
        self._ends: list[int] = []

    def run(self) -> Callable[[], NoReturn] | None:
        """Serve until the parent closes the connection; in a forked worker, return the function that runs it."""
        from offsider.cli.boot import load  # a parent would keep it in memory

        leave_removed_folder()
        self._signals.install()
        title_setter()("offsider fork server")
        config = load(self._options)
        self._signals.install()  # again, because the application may have replaced the handlers
        threads = other_threads()
        self._tell({"loaded": threads})
        if threads:
            return None
        # Workers share the memory pages that exist now until a write; freeze, so that the collector does not write.
        gc.collect()
        gc.freeze()
        while True:
            self._signals.wait(None, [self._link.fileno()])
            self._report_exits()
            try:
                messages = self._received()
            except (BlockingIOError, InterruptedError):
                continue
            if messages is None:
                return None
            for message in messages:
                if "reap" in message:
                    with suppress(ChildProcessError):
                        os.waitpid(message["reap"], 0)
                elif work := self._fork(config, self._ends.pop(0)):
                    return work

    def _received(self) -> list[dict[str, Any]] | None:
        """Return the messages that have arrived; None if the parent has closed the connection."""
        descriptors = array.array("i")
        room = socket.CMSG_SPACE(64 * descriptors.itemsize)
        data, ancillary, *_ = self._link.recvmsg(65536, room, socket.MSG_DONTWAIT)
        for _level, _kind, content in ancillary:
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        self._ends += descriptors
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def _fork(self, config: Config, descriptor: int) -> Callable[[], NoReturn] | None:
        def release() -> None:
            self._signals.close()
            self._link.close()

        flush_output()
        pid = fork(release)
        if pid == 0:
            end = socket.socket(fileno=descriptor)
            return lambda: live(self._options, end, config)
        os.close(descriptor)
        self._workers.add(pid)
        self._tell({"started": pid})
        return None

    def _report_exits(self) -> None:
        for pid in sorted(self._workers):
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                self._workers.remove(pid)
                killed = ended.si_code in (os.CLD_KILLED, os.CLD_DUMPED)
                self._tell({"exited": [pid, ended.si_status if killed else ended.si_status << 8]})

    def _tell(self, message: dict[str, object]) -> None:
        with suppress(OSError):  # the parent has died: the next read ends the server
            self._link.sendall(json.dumps(message).encode() + b"\n")


def other_threads() -> list[str]:
    """Return the names of all other threads; threads that Python did not start have their system name."""
    here = threading.get_native_id()
    python = {thread.native_id: thread.name for thread in threading.enumerate()}
    if not TASKS.is_dir():
        return sorted(name for number, name in python.items() if number != here)
    return sorted(python.get(number) or _called(number) for number in map(int, os.listdir(TASKS)) if number != here)  # noqa: PTH208  # names alone


def _called(number: int) -> str:
    try:
        return f"{(TASKS / str(number) / 'comm').read_text().strip()} (not Python's)"
    except OSError:
        return f"thread {number}"
