"""Who saw what happen to which job: lines in files, written by the producers and by the jobs themselves.

One line is one `os.write` to a file opened with O_APPEND, one file for each process: a line is there as
soon as the call returns, whole, even when the process is killed with -9 in the next moment.

========== ======================= ==========================================================
word       written by              meaning
========== ======================= ==========================================================
pushed     whoever pushed it       the server acknowledged the push
began      the job                 a run of it began
done       the job                 it ran to its end
failed     the job                 it raised
postponed  the job                 it asked to run again later
cut-short  the job                 the worker stopped before the job's end
gave-up    the job's on_exhausted  no further tries
========== ======================= ==========================================================
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

WORDS = ("pushed", "began", "done", "failed", "postponed", "cut-short", "gave-up")


@dataclass(frozen=True, slots=True)
class Line:
    """One line.

    Attributes:
        word: what happened.
        key: the jid, or the bytes themselves of what is no job.
        name: of the job.
        attempt: which try it was, from 1; 0 where that means nothing.
        when: epoch seconds.
        pid: of the process that wrote it.
    """

    word: str
    key: str
    name: str
    attempt: int
    when: float
    pid: int = 0


class Ledger:
    """The ledger in a folder, for writing. Safe to use from many threads and after a fork."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "ledger"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._pid = 0
        self._file = -1

    def write(self, word: str, key: str, name: str, attempt: int = 0) -> None:
        line = f"{word} {key} {name} {attempt} {time.time():.3f}\n".encode()
        with self._lock:
            os.write(self._own_file(), line)

    def pushed(self, jid: str | None, name: str) -> None:
        """Note an acknowledged push; a push that middleware stopped (None) is none."""
        if jid is not None:
            self.write("pushed", jid, name)

    def _own_file(self) -> int:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            path = self._folder / f"{self._pid}.txt"
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        return self._file


class LedgerReader:
    """Reads on where it stopped, so that a look twice a second stays cheap however long the demo runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "ledger"
        self._read: dict[Path, int] = {}

    def news(self) -> Iterator[Line]:
        """Every whole line that was written since the last call."""
        for path in sorted(self._folder.glob("*.txt")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                whole, newline, _ = file.read().rpartition(b"\n")
            self._read[path] = self._read.get(path, 0) + len(whole) + len(newline)
            yield from _parsed(whole.decode().splitlines(), int(path.stem))


def _parsed(lines: Iterable[str], pid: int) -> Iterator[Line]:
    for line in lines:
        word, key, name, attempt, when = line.split(" ")
        yield Line(word, key, name, int(attempt), float(when), pid)
