"""What every job did, in a file that harness and worker map: no command, no lock, no system call a job.

Each job has one slot: when it last started and ended (CLOCK_MONOTONIC, ns) and how often it started. The
record survives ``kill -9``, because the pages belong to the file.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from pathlib import Path

SLOT = struct.Struct("=qqq")


class Slots:
    """A mapped file of ``count`` slots.

    Args:
        path: of the file.
        count: makes a new file of so many slots; 0 maps the one that is there.
    """

    def __init__(self, path: str | os.PathLike[str], count: int = 0) -> None:
        if count:
            Path(path).write_bytes(bytes(count * SLOT.size))
        with Path(path).open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.count = len(self._map) // SLOT.size

    def started(self, number: int) -> None:
        """A job begins. Not atomic: two runs of one job at the same moment may count as one start."""
        _, _, starts = SLOT.unpack_from(self._map, number * SLOT.size)
        SLOT.pack_into(self._map, number * SLOT.size, time.monotonic_ns(), 0, starts + 1)

    def ended(self, number: int) -> None:
        struct.pack_into("=q", self._map, number * SLOT.size + 8, time.monotonic_ns())

    def read(self) -> list[tuple[int, int, int]]:
        """Start, end and number of starts of every job."""
        return [*SLOT.iter_unpack(self._map)]

    def finished(self) -> int:
        """How many jobs have ended."""
        return sum(1 for _, end, _ in SLOT.iter_unpack(self._map) if end)
