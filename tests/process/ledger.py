"""A file in which jobs note what they did: it knows what happened also when Redis or the process is gone.

Each note is one line, appended in one write: event, jid, pid, time, and a word of the job's own.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "TEST_LEDGER"


@dataclass(frozen=True)
class Note:
    """One line of the ledger."""

    event: str
    jid: str
    pid: int
    time: float
    word: str


def note(event: str, jid: str = "", word: object = "") -> None:
    """Append a line; called by jobs."""
    line = f"{event}\t{jid}\t{os.getpid()}\t{time.time()!r}\t{word}\n"
    file = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


class Ledger:
    """The ledger as the test reads it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def notes(self, event: str | None = None, *, jid: str | None = None, pid: int | None = None) -> list[Note]:
        """All notes, oldest first."""
        if not self.path.exists():
            return []
        lines = self.path.read_text().split("\n")[:-1]
        found = [_parsed(line) for line in lines]
        return [
            item
            for item in found
            if event in (None, item.event) and jid in (None, item.jid) and pid in (None, item.pid)
        ]

    def events(self) -> list[str]:
        return [item.event for item in self.notes()]

    def words(self, event: str, *, jid: str | None = None) -> list[str]:
        return [item.word for item in self.notes(event, jid=jid)]

    def counts(self, event: str) -> Counter[str]:
        """How often each jid has this event."""
        return Counter(item.jid for item in self.notes(event))


def _parsed(line: str) -> Note:
    event, jid, pid, when, word = line.split("\t", 4)
    return Note(event, jid, int(pid), float(when), word)
