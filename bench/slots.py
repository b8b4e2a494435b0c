"""Records the runs of every job in a file that harness, producer and workers map.

Each job has one slot: its push, last start and last end (CLOCK_MONOTONIC, ns), its numbers of starts and ends, and the
process of the last run. This adds no command, lock or system call to a job, and the record survives ``kill -9``,
because the pages belong to the file. Nothing is atomic: two simultaneous runs of one job may count as one.

Standard library only, because every rival's environment imports it.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

SLOT = struct.Struct("=qqqqqq")
COUNTS, STARTED, ENDED = struct.Struct("=qq"), struct.Struct("=qqqqq"), struct.Struct("=qqq")
#: This share of the jobs is left out at both ends of the middle rate.
MARGIN = 0.1


class Run(NamedTuple):
    """One job: times in ns of CLOCK_MONOTONIC, 0 for missing events."""

    pushed: int
    start: int
    end: int
    starts: int
    ends: int
    process: int


class Slots:
    """A mapped file of slots.

    Args:
        path: the file.
        count: creates a new file with this number of slots; 0 maps an existing file.
    """

    #: This process, also if it was forked from one that had imported the module.
    process = os.getpid()

    def __init__(self, path: str | os.PathLike[str], count: int = 0) -> None:
        self.path = Path(path)
        if count:
            self.path.write_bytes(bytes(count * SLOT.size))
        with self.path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.count = len(self._map) // SLOT.size
        self._done = 0

    def pushed(self, number: int) -> None:
        struct.pack_into("=q", self._map, number * SLOT.size, time.monotonic_ns())

    def started(self, number: int) -> None:
        at = number * SLOT.size
        starts, ends = COUNTS.unpack_from(self._map, at + 24)
        STARTED.pack_into(self._map, at + 8, time.monotonic_ns(), 0, starts + 1, ends, self.process)

    def ended(self, number: int) -> None:
        at = number * SLOT.size
        starts, ends = COUNTS.unpack_from(self._map, at + 24)
        ENDED.pack_into(self._map, at + 16, time.monotonic_ns(), starts, ends + 1)

    def runs(self) -> list[Run]:
        return [Run(*slot) for slot in SLOT.iter_unpack(self._map)]

    def has_begun(self, among: int = 64) -> bool:
        """Return whether one of the first jobs has started."""
        return any(SLOT.unpack_from(self._map, number * SLOT.size)[3] for number in range(min(among, self.count)))

    def done_from_the_start(self) -> int:
        """Return the number of ended jobs before the first that has not ended: a cheap measure of progress."""
        while self._done < self.count and SLOT.unpack_from(self._map, self._done * SLOT.size)[4]:
            self._done += 1
        return self._done


def _note_fork() -> None:
    Slots.process = os.getpid()


os.register_at_fork(after_in_child=_note_fork)


@dataclass(frozen=True)
class Rate:
    """Jobs per second, over the whole window and over its middle 80 %."""

    whole: float
    middle: float
    seconds: float


def rate_of(runs: list[Run]) -> Rate:
    """Return the rate from the first job of the last process to the last end. ValueError if too few jobs ended."""
    ended = [run for run in runs if run.end]
    if len(ended) < 10:
        raise ValueError(f"only {len(ended)} of {len(runs)} jobs ended")
    first: dict[int, int] = {}
    for run in ended:
        first[run.process] = min(run.start, first.get(run.process, run.start))
    opened = max(first.values())
    ends = sorted(run.end for run in ended if run.end > opened)
    seconds = (ends[-1] - opened) / 1e9
    low, high = int(len(ends) * MARGIN), int(len(ends) * (1 - MARGIN))
    middle = (high - low) / max((ends[high] - ends[low]) / 1e9, 1e-9)
    return Rate(len(ends) / seconds, middle, seconds)


def lags_ms(runs: list[Run]) -> Iterator[float]:
    """From push to start."""
    return ((run.start - run.pushed) / 1e6 for run in runs if run.start and run.pushed)
