"""Reads the records of the jobs (see apps/probe.py)."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

SLOT = struct.Struct("=qqqqqq")  # as in apps/probe.py
MIDDLE = 0.1  # so much is left out at both ends of the middle rate


class Run(NamedTuple):
    """One job: times in ns of CLOCK_MONOTONIC, 0 for missing events."""

    pushed: int
    start: int
    end: int
    starts: int
    ends: int
    process: int


@dataclass(frozen=True)
class Rate:
    """Jobs per second, over the whole window and over its middle 80 %."""

    whole: float
    middle: float
    opened_ns: int
    seconds: float


class Ledger:
    """A mapped file with a slot for each of ``count`` jobs."""

    def __init__(self, path: Path, count: int) -> None:
        self.path, self.count = path, count
        path.write_bytes(bytes(count * SLOT.size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._done = 0

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


def rate_of(runs: list[Run]) -> Rate:
    """Return the rate from the start of the last process to the last end. ValueError if too few jobs ended."""
    ended = [run for run in runs if run.end]
    if len(ended) < 10:
        raise ValueError(f"only {len(ended)} of {len(runs)} jobs ended")
    opened = max(first_starts(ended).values())
    ends = sorted(run.end for run in ended if run.end > opened)
    seconds = (ends[-1] - opened) / 1e9
    low, high = int(len(ends) * MIDDLE), int(len(ends) * (1 - MIDDLE))
    middle = (high - low) / max((ends[high] - ends[low]) / 1e9, 1e-9)
    return Rate(len(ends) / seconds, middle, opened, seconds)


def first_starts(runs: list[Run]) -> dict[int, int]:
    """Return the time of the first job of each process."""
    first: dict[int, int] = {}
    for run in runs:
        first[run.process] = min(run.start, first.get(run.process, run.start))
    return first


def lags_ms(runs: list[Run]) -> Iterator[float]:
    """From push to start."""
    return ((run.start - run.pushed) / 1e6 for run in runs if run.start and run.pushed)
