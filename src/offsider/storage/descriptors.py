"""Exits a worker whose file descriptors were closed by a job, for example with ``os.closerange``.

The system reuses closed descriptor numbers for new files and sockets. A connection that kept using its number would
write to another thread's socket and read the reply to another thread's command, so the state of every job would be
uncertain. Exiting is safe: the jobs run again, each with a strike, so that the job at fault ends as a poison pill.

1. `watch` opens an unused sentinel descriptor, with a number that the system does not reuse soon.
2. Each use of a connection or of the signal pipe checks that the sentinel is open: 0.1 microseconds.
3. A forked child may close any descriptor: it has connections of its own.
"""

from __future__ import annotations

import os
from contextlib import suppress

#: Exit code of a worker without its descriptors: EX_OSERR of sysexits.h, a system error.
CLOSED = 71
#: Above the descriptors of a worker, and below 256, a common upper bound of loops that close descriptors.
NUMBER = 200
_STDERR = 2
_MESSAGE = "a job closed the file descriptors of this worker: the worker exits, and its jobs run again\n"


class _Watched:
    """The sentinel descriptor, -1 for none, and the identity of standard error at the time of `watch`."""

    fd = -1
    stderr: os.stat_result | None = None


watched = _Watched()


def watch() -> None:
    """Exit this process as soon as its descriptors are closed."""
    if watched.fd >= 0:
        return
    import fcntl  # POSIX only, as workers are

    nowhere = os.open(os.devnull, os.O_RDONLY)
    with suppress(OSError):  # above the limit of open files
        watched.fd = fcntl.fcntl(nowhere, fcntl.F_DUPFD_CLOEXEC, NUMBER)
    os.close(nowhere)
    with suppress(OSError):
        watched.stderr = os.fstat(_STDERR)


def look() -> None:
    """Exit if the sentinel descriptor was closed."""
    if watched.fd < 0:
        return
    try:
        os.get_inheritable(watched.fd)
    except OSError:
        _say()
        os._exit(CLOSED)


def _say() -> None:
    """Write the message to standard error, unless its number now belongs to another file."""
    with suppress(OSError):
        if watched.stderr is not None and os.path.samestat(os.fstat(_STDERR), watched.stderr):
            os.write(_STDERR, _MESSAGE.encode())


def _in_child() -> None:
    watched.fd = -1


with suppress(AttributeError):  # Windows has no forks
    os.register_at_fork(after_in_child=_in_child)
