"""The application of the worker: no-op jobs that are counted in a mapped file, and jobs that record their start."""

from __future__ import annotations

import itertools
import mmap
import os
import struct
import time
from pathlib import Path

from offsider import job

COUNT = struct.Struct("=q")


class Record:
    """A mapped file: the number of finished jobs, and the start of each picked-up job in monotonic ns.

    Args:
        path: the file.
        starts: creates a new file with room for this number of starts; 0 maps an existing file.
    """

    def __init__(self, path: str | os.PathLike[str], starts: int = 0) -> None:
        if starts:
            Path(path).write_bytes(bytes((starts + 1) * COUNT.size))
        with Path(path).open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._numbers = itertools.count(1)

    @property
    def finished(self) -> int:
        """Number of finished jobs; at most one too low for each thread."""
        return int(COUNT.unpack_from(self._map, 0)[0])

    def finish(self) -> None:
        COUNT.pack_into(self._map, 0, next(self._numbers))

    def start(self, place: int) -> None:
        COUNT.pack_into(self._map, (place + 1) * COUNT.size, time.monotonic_ns())

    def started(self, place: int) -> int:
        """Return the start of a job; 0 if it has not started."""
        return int(COUNT.unpack_from(self._map, (place + 1) * COUNT.size)[0])


def declare(record: Record, classes: int) -> None:
    """Declare ``classes`` no-op jobs, and the job whose start is recorded."""
    for number in range(classes):

        def noop(_filling: str) -> None:
            record.finish()

        job(name=f"scale.noop{number}")(noop)

    @job(name="scale.picked")
    def picked(place: int) -> None:
        record.start(place)


if "OFFSIDER_SCALE_RECORD" in os.environ:
    declare(Record(os.environ["OFFSIDER_SCALE_RECORD"]), int(os.environ["OFFSIDER_SCALE_CLASSES"]))
