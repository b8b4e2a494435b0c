"""Forked children of user code: a child never continues as a copy of the worker's thread.

1. Inside the job's function a child may do what it likes, including pushing jobs. It should exit by itself.
2. Wherever user code returns to the worker's code, a child that returns exits at once: after the job, middleware,
   callbacks, listeners and handlers. Otherwise it would fetch, settle, beat and log as the worker.
3. Before it exits, it reports to the worker through a pipe, so that the worker can log the bug and reap the child.
"""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import NoReturn, TypeVar, cast

T = TypeVar("T")

#: Exit code of a returned child: EX_SOFTWARE of sysexits.h, an internal software error.
CAME_BACK = 70
#: Writes up to this size are atomic on a pipe, also with several writers.
_MOST_BYTES = 4096
_NAME_CHARACTERS = 500
_PATIENCE_MS = 1000


class _Here:
    """The current process. Every run reads it: an attribute is much cheaper than a call of the kernel.

    Attributes:
        pid: process id.
        stray: whether it is a forked child of a worker process, without a worker of its own.
    """

    pid = os.getpid()
    stray = False


here = _Here()


@dataclass(frozen=True, slots=True)
class Return:
    """A returned child.

    Attributes:
        pid: process id of the child.
        jid, name: the job that forked it; empty when a handler did.
        error: class of the exception that the child raised; empty without one.
    """

    pid: int
    jid: str
    name: str
    error: str


class Returns:
    """A pipe from the children of one worker to that worker."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        self._stat = os.fstat(self._writing)
        self._rest = b""

    def tell(self, returned: Return) -> None:
        """Report a return; called in the child, which may have closed the pipe and reused its descriptor number."""
        with suppress(OSError):
            if os.path.samestat(os.fstat(self._writing), self._stat):
                _wait(self._writing, select.POLLOUT, _PATIENCE_MS)
                os.write(self._writing, json.dumps(asdict(returned)).encode() + b"\n")

    def wake(self) -> None:
        """Wake a thread that blocks in `wait`."""
        with suppress(OSError):
            os.write(self._writing, b"\n")

    def wait(self, timeout_seconds: float) -> list[Return]:
        """Wait for returned children and return their reports; empty after a timeout or `wake`."""
        _wait(self._reading, select.POLLIN, timeout_seconds * 1000)
        try:
            self._rest += os.read(self._reading, 16 * _MOST_BYTES)
        except BlockingIOError:
            return []
        *lines, self._rest = self._rest.split(b"\n")
        return [Return(**json.loads(line)) for line in lines if line]

    def close(self) -> None:
        os.close(self._reading)
        os.close(self._writing)


def _wait(fd: int, event: int, timeout_ms: float) -> None:
    poller = select.poll()
    poller.register(fd, event)
    poller.poll(timeout_ms)


class _Worker:
    """The worker of this process that receives the reports: the one that called `report_to` last."""

    returns: Returns | None = None
    on_fork: Callable[[], None] | None = None


_worker = _Worker()


def report_to(returns: Returns, on_fork: Callable[[], None]) -> None:
    """Report returned children to ``returns`` from now on, and call ``on_fork`` in the worker after each fork."""
    _worker.returns, _worker.on_fork = returns, on_fork
    here.stray = False


def report_no_more(returns: Returns) -> None:
    """Stop reporting to ``returns``, and close it."""
    if _worker.returns is returns:
        _worker.returns = _worker.on_fork = None
    returns.close()


def call(user_code: Callable[..., T], *arguments: object, job: object = None) -> T:
    """Call a callback or a handler of the application; a child that was forked in it exits when it returns.

    A child may itself emit events, for example when it pushes jobs: it goes on.

    Args:
        job: payload or context of the job that the code is called for, for the log of the worker.
    """
    pid = here.pid
    try:
        return user_code(*arguments)
    finally:
        if here.pid != pid and here.stray:
            payload: object = getattr(job, "payload", job)
            known: Mapping[str, object] = cast("Mapping[str, object]", payload) if isinstance(payload, Mapping) else {}
            came_back(str(known.get("jid", "")), str(known.get("class", "")))


def came_back(jid: str = "", name: str = "") -> NoReturn:
    """Report and exit this process, a child forked in a worker by job ``jid``, or by a handler without one."""
    error = sys.exception()
    if isinstance(error, StopIteration):  # a coroutine that returned
        error = None
    if _worker.returns is not None:
        kind = "" if error is None else type(error).__name__
        _worker.returns.tell(Return(here.pid, jid[:_NAME_CHARACTERS], name[:_NAME_CHARACTERS], kind[:_NAME_CHARACTERS]))
    os._exit(_asked_for(error) if isinstance(error, SystemExit) else CAME_BACK)


def _asked_for(error: SystemExit) -> int:
    if error.code is None:
        return 0
    return error.code & 0xFF if isinstance(error.code, int) else 1


def _in_child() -> None:
    here.pid = os.getpid()
    here.stray = _worker.returns is not None


def _in_parent() -> None:
    if _worker.on_fork is not None:
        _worker.on_fork()


with suppress(AttributeError):  # Windows has no forks
    os.register_at_fork(after_in_child=_in_child, after_in_parent=_in_parent)
