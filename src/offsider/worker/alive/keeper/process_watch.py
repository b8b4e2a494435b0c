"""Detects the end of programs: by a pidfd, which becomes readable when the process ends, and by polling.

A detected end proves that the program is dead. Either its threads are gone, even if the process is not reaped yet
(pidfd), or the process no longer exists (polling), or the process runs another program (`os.execv`).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

POLL_SECONDS = 0.5


class Program:
    """The program that a process runs when this object is created.

    An exec keeps the pid, the start time, and even a pidfd of the process; it replaces only the memory. An open
    ``/proc/<pid>/maps`` belongs to one memory image: after an exec it reads as empty. Forked children and closed
    descriptors of the process make no difference.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._fd: int | None = None
        with suppress(OSError):  # not Linux, or no permission: an exec is not detected
            self._fd = os.open(f"/proc/{pid}/maps", os.O_RDONLY)
        if self.replaced():
            self.close()  # the program ended before, or this kernel shows no maps

    @property
    def watched(self) -> bool:
        """Whether an exec can be detected."""
        return self._fd is not None

    def replaced(self) -> bool:
        """Return whether the process runs another program, or has ended."""
        try:
            return self._fd is not None and not os.pread(self._fd, 1, 0)
        except OSError:  # the process has ended and was reaped
            return True

    def by_exec(self) -> bool:
        """Return whether the process runs another program.

        An exiting process releases its memory some time before it ends. From then on its size is 0.
        """
        return self.replaced() and _size_pages(self._pid) > 0

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class ProcessWatch:
    """Detects the end of a program that runs when this object is created.

    Attributes:
        pid: its process.
        fd: pidfd, readable once the process has ended; None if the system has no pidfd, and after `close`.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.fd = _pidfd(pid)
        self._program = Program(pid)
        self._ended = False

    @property
    def needs_polling(self) -> bool:
        """Whether only polling can detect some kinds of end."""
        return not self._ended and (self.fd is None or self._program.watched)

    def ended(self) -> bool:
        """Return whether the program has ended."""
        self._ended = self._ended or self._poll()
        return self._ended

    @property
    def by_exec(self) -> bool:
        """Whether the process still runs, with another program."""
        return self._program.by_exec() and not self._process_ended()

    def _poll(self) -> bool:
        return self._program.replaced() or self._process_ended()

    def _process_ended(self) -> bool:
        if self.fd is not None:
            return _readable(self.fd)
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False

    def close(self) -> None:
        self._program.close()
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


def _size_pages(pid: int) -> int:
    """Return the size of a process's memory; 0 if it has released it."""
    try:
        # Not `maps`: other users may read this file too, and a job may execute a program with setuid.
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[0])
    except OSError:  # it has ended and was reaped
        return 0


def _pidfd(pid: int) -> int | None:
    opener = getattr(os, "pidfd_open", None)  # Linux
    if opener is None:
        return None
    with suppress(OSError):  # an older kernel, a sandbox, or the process has ended: `ended` polls instead
        return int(opener(pid))
    return None


def _readable(fd: int) -> bool:
    import select  # POSIX only in this use

    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(0))
