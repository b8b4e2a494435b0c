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
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from offsider.cli.failure import flush_output, give_up
from offsider.cli.forks import fork, other_threads
from offsider.cli.parent.worker_process import Backoff, live
from offsider.cli.signals import NAMES, SignalQueue
from offsider.cli.start import leave_removed_folder
from offsider.cli.status import title_setter
from offsider.core.errors import OffsiderError
from offsider.core.wording import described
from offsider.logs.setup import end_writers, logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsider.cli.options import WorkerOptions
    from offsider.config.config import Config

#: Maximum time for a fork. The parent handles no signals in the meantime.
FORK_SECONDS = 1.0


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
    _unhandled: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
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

    def started(self, pid: int | None, link: socket.socket) -> None:
        """Note the new server and the connection to it; without a pid, it could not be forked, and is started later."""
        self._born_at = time.monotonic()
        if pid is not None:
            self.pid, self._link, self._rest = pid, link, b""
        else:
            link.close()
            self._start_at = self._born_at + self._backoff.pause_seconds(0.0)

    def start(self, end: socket.socket) -> int | None:
        """Fork a worker, and return its pid; None if the server has died, cannot fork or does not answer.

        The next `listen` handles the other messages, because the exit of this worker may already be among them.
        """
        link = self._link
        if link is None:
            return None
        try:
            link.setblocking(True)
            link.settimeout(FORK_SECONDS)
            socket.send_fds(link, [b'{"start": true}\n'], [end.fileno()])
            deadline = time.monotonic() + FORK_SECONDS
            while time.monotonic() < deadline:
                self._unhandled += self._received()
                for message in self._unhandled:
                    if "started" in message:
                        self._unhandled.remove(message)
                        pid: int | None = message["started"]
                        return pid
        except OSError:
            pass
        # The link of a worker that it may have forked closes, so that worker stops.
        logger.error("the fork server (process %d) forks no worker: killing it", self.pid)
        self._kill()
        return None

    def listen(self) -> None:
        """Handle the messages that have arrived."""
        unhandled, self._unhandled = self._unhandled, []
        for message in unhandled:
            self._handle(message)
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
    """Run the fork server in this process, to its end."""
    code = 0
    try:
        _Server(options, link).run()
    except OffsiderError as error:
        code = give_up(str(error), error, verbose=options.verbose)
    except BaseException:  # noqa: BLE001  # it must not reach the parent's code, which called this
        traceback.print_exc()
        code = 1
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

    def run(self) -> None:
        """Serve until the parent closes the connection."""
        from offsider.cli.run_worker import load  # a parent would keep it in memory

        leave_removed_folder()
        self._signals.install()
        title_setter()("offsider fork server")
        config = load(self._options)
        self._signals.install()  # again, because the application may have replaced the handlers
        end_writers()
        threads = other_threads()
        self._tell({"loaded": threads})
        if threads:
            return
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
                return
            for message in messages:
                if "reap" in message:
                    with suppress(ChildProcessError):
                        os.waitpid(message["reap"], 0)
                else:
                    self._fork(config, socket.socket(fileno=self._ends.pop(0)))

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

    def _fork(self, config: Config, end: socket.socket) -> None:
        def release() -> None:
            self._signals.close()
            self._link.close()

        with end:
            pid = fork(release, lambda: live(self._options, end, config))
        if pid is not None:
            self._workers.add(pid)
        self._tell({"started": pid})

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
