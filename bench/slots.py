"""Records the runs of every job in a file that harness and worker map: no command, lock or system call per job.

Each job has one slot: its last start and end (CLOCK_MONOTONIC, ns) and its number of starts. The record survives
``kill -9``, because the pages belong to the file.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from pathlib import Path

SLOT = struct.Struct("=qqq")


class Slots:
    """A mapped file of slots.

    Args:
        path: the file.
        count: creates a new file with this number of slots; 0 maps an existing file.
    """

    def __init__(self, path: str | os.PathLike[str], count: int = 0) -> None:
        if count:
            Path(path).write_bytes(bytes(count * SLOT.size))
        with Path(path).open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.count = len(self._map) // SLOT.size

    def started(self, number: int) -> None:
        """Record a start. Not atomic: two simultaneous runs of one job may count as one start."""
        _, _, starts = SLOT.unpack_from(self._map, number * SLOT.size)
        SLOT.pack_into(self._map, number * SLOT.size, time.monotonic_ns(), 0, starts + 1)

    def ended(self, number: int) -> None:
        struct.pack_into("=q", self._map, number * SLOT.size + 8, time.monotonic_ns())

    def read(self) -> list[tuple[int, int, int]]:
        """Return start, end and number of starts of every job."""
        return [*SLOT.iter_unpack(self._map)]

    def finished(self) -> int:
        """Return the number of jobs that have ended."""
        return sum(1 for _, end, _ in SLOT.iter_unpack(self._map) if end)
