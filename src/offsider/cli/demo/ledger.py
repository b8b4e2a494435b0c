"""The ledger: one line for each event of a job, written by the demo and by the jobs, never by the server.

======  ========  ==============================================
word    by        meaning
======  ========  ==============================================
pushed  producer  the server acknowledged the push
began   job       a run began
done    job       the run succeeded
failed  job       the run raised an exception
======  ========  ==============================================
"""

from __future__ import annotations

import os
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

FILE = "ledger.txt"


class Ledger:
    """Appends lines to the ledger of a folder.

    One line is one write to a file opened with O_APPEND: lines of several processes do not mix, and a line survives
    a SIGKILL of its process.
    """

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, word: str, jid: str, attempt: int = 0) -> None:
        os.write(self._file, f"{word} {jid} {attempt} {os.getpid()}\n".encode())

    def pushed(self, *jids: str) -> None:
        """Record acknowledged pushes; ignore canceled ones, which are empty."""
        for jid in filter(None, jids):
            self.write("pushed", jid)


class Account(NamedTuple):
    """What became of all jobs: processed, dead, left and lost count jobs; failed and retried count runs."""

    processed: int
    failed: int
    retried: int
    dead: int
    left: int
    lost: int

    def __str__(self) -> str:
        return " ".join(f"{word} {number}" for word, number in self._asdict().items())


class Tally:
    """Adds up the ledger of a folder.

    Attributes:
        known: jids in the ledger.
        done: jids of successful jobs.
        running: jid -> pid of the process that began a run and has not recorded its outcome.
        failed: failed runs.
        retried: runs after the first attempt.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._offset = 0
        self.known: set[str] = set()
        self.done: set[str] = set()
        self.running: dict[str, int] = {}
        self.failed = self.retried = 0

    def read(self) -> None:
        """Add the lines since the last call; an incomplete line waits for the next call."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        for line in whole.decode().splitlines():
            word, jid, attempt, pid = line.split(" ")
            self.known.add(jid)
            if word == "began":
                self.running[jid] = int(pid)
            elif word != "pushed":
                self.running.pop(jid, None)
                self.retried += int(attempt) > 1
            if word == "done":
                self.done.add(jid)
            self.failed += word == "failed"

    def running_in(self, pid: int) -> set[str]:
        return {jid for jid, process in self.running.items() if process == pid}

    def worker_in(self, group: int) -> int:
        """The process of a process group that runs jobs; 0 without one."""
        for pid in set(self.running.values()):
            with suppress(ProcessLookupError):  # killed before
                if os.getpgid(pid) == group:
                    return pid
        return 0

    def account(self, dead: AbstractSet[str], stored: AbstractSet[str]) -> Account:
        """Compare the ledger with the jobs in the dead set and the jobs that are stored elsewhere.

        A job counts once: as done, else dead, else left. A known job that is none of these is lost.
        """
        dead = dead - self.done
        left = stored - self.done - dead
        lost = self.known - self.done - dead - left
        return Account(len(self.done), self.failed, self.retried, len(dead), len(left), len(lost))
