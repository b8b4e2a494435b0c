"""Processes that a job damages: forked children that return to the worker's code, and closed file descriptors.

1. Inside the job's function a forked child may do what it likes, including pushing jobs. It should exit by itself.
2. A child that returns to the worker's code exits before that code fetches, settles, beats or logs as the worker. A
   hook at each fork marks the children of a process that has a worker.
3. A job that closes the descriptors of its worker ends it: the system reuses their numbers, so that a connection would
   read the reply to another thread's command. Its jobs run again, each with a strike.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from offsider.core.payload import JobPayload

#: Exit code of a returned child: EX_SOFTWARE of sysexits.h, an internal software error.
CAME_BACK = 70
#: Exit code of a worker without its descriptors: EX_OSERR of sysexits.h, a system error.
CLOSED = 71
#: Above the descriptors of a worker, and below 256, a common upper bound of loops that close descriptors.
SENTINEL = 200
_STDERR = 2


class _Process:
    """The current process. Every run reads it: an attribute is much cheaper than a call of the kernel.

    Attributes:
        pid: process id.
        workers: number of workers that run in this process.
        stray: whether it is a forked child of a process with a worker, without a worker of its own.
        sentinel: an unused descriptor that is open while no job closes all of them; -1 without one.
        stderr: standard error when the worker started.
    """

    pid = os.getpid()
    workers = 0
    stray = False
    sentinel = -1
    stderr: os.stat_result | None = None


this_process = _Process()


def worker_started(*, owns_process: bool) -> None:
    """From now on, forked children of this process are stray.

    Args:
        owns_process: whether the process ends if a job closes its descriptors; another program must not end.
    """
    this_process.workers += 1
    this_process.stray = False
    with suppress(OSError):
        this_process.stderr = os.fstat(_STDERR)
    if owns_process and this_process.sentinel < 0:
        import fcntl  # POSIX only, as workers are

        nowhere = os.open(os.devnull, os.O_RDONLY)
        with suppress(OSError):  # above the limit of open files
            this_process.sentinel = fcntl.fcntl(nowhere, fcntl.F_DUPFD_CLOEXEC, SENTINEL)
        os.close(nowhere)


def worker_stopped() -> None:
    """Children of this process are not stray any more, unless another worker runs in it."""
    this_process.workers -= 1


def check_descriptors() -> None:
    """End this process if a job has closed its descriptors; called after a run."""
    if this_process.sentinel >= 0:
        try:
            os.get_inheritable(this_process.sentinel)
        except OSError:
            _say("a job closed the file descriptors of this worker: the worker exits, and its jobs run again")
            os._exit(CLOSED)


def end_child(job: JobPayload | None = None) -> None:
    """End this process if it is a forked child; called after callbacks and handlers."""
    if this_process.stray:
        came_back(job)


def came_back(job: JobPayload | None = None) -> NoReturn:
    """Exit this process, a child forked by a job or by a handler, and write why unless it raised SystemExit."""
    error = sys.exception()
    if isinstance(error, SystemExit):
        os._exit(_asked_for(error))
    kind = "" if error is None or isinstance(error, StopIteration) else f" with {type(error).__name__}"
    whose = "a handler" if job is None else f"job {job.get('jid')} ({job['class']})"
    _say(
        f"{whose}: a forked child (process {this_process.pid}) returned to the worker{kind} and was terminated; "
        "end it with os._exit()"
    )
    os._exit(CAME_BACK)


def _asked_for(error: SystemExit) -> int:
    if error.code is None:
        return 0
    return error.code & 0xFF if isinstance(error.code, int) else 1


def _say(text: str) -> None:
    """Write a line to standard error, unless its number now belongs to another file.

    Not to the log: its locks may have been held at the fork.
    """
    with suppress(OSError):
        if this_process.stderr is not None and os.path.samestat(os.fstat(_STDERR), this_process.stderr):
            os.write(_STDERR, f"offsider: {text}\n".encode(errors="replace"))


def _in_child() -> None:
    this_process.pid = os.getpid()
    this_process.stray = this_process.stray or this_process.workers > 0
    this_process.workers = 0
    this_process.sentinel = -1


with suppress(AttributeError):  # Windows has no forks
    os.register_at_fork(after_in_child=_in_child)
