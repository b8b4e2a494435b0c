"""Scans in chunks with a time budget, so that neither the server's other clients nor the caller wait long."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
#: Limits of one step of a scan for a page.
PAGE_BUDGET_MS = 80
PAGE_MATCHES = 100
_STEP_SECONDS = 0.01
_MIN_STEP, _MAX_STEP = 50, 10_000


@dataclass(slots=True)
class Chunk(Generic[T]):
    """One chunk of a scan.

    Attributes:
        entries: matches in this chunk, for example jobs.
        scanned: approximate number of entries scanned for this chunk.
        total: current number of entries.
        cursor: pass it to the next call; empty after the last chunk.
    """

    entries: list[T]
    scanned: int
    total: int
    cursor: str

    @property
    def complete(self) -> bool:
        """Whether this is the last chunk."""
        return not self.cursor


def steps(budget_ms: float, most: int | None = None) -> Iterator[int]:
    """Yield batch sizes until the time budget is used up; at least one.

    Each size is adapted to the duration of the previous batch, including the caller's work: about 10 ms per batch.

    Args:
        budget_ms: time budget of all batches in milliseconds.
        most: maximum number of matches that the caller wants; limits the batch size.
    """
    ends = time.monotonic() + budget_ms / 1000
    biggest = _MAX_STEP if most is None else min(_MAX_STEP, max(_MIN_STEP, 10 * most))
    step = _MIN_STEP
    while True:
        started = time.monotonic()
        yield step
        now = time.monotonic()
        if now >= ends:
            return
        fitting = step * min(_STEP_SECONDS, ends - now) / max(now - started, 1e-6)
        step = max(_MIN_STEP, min(int(fitting), 4 * step, biggest))


def scan(
    read: Callable[[str, int], tuple[str, int, Iterable[T]]],
    total: int,
    cursor: str,
    budget_ms: float,
    most: int | None,
) -> Chunk[T]:
    """Scan within a time budget; an entry may be returned twice.

    Args:
        read: gets a cursor and a number of entries to scan. Returns the next cursor, empty at the end; the number of
            scanned entries; and the matches.
        total: current number of entries.
        cursor: cursor of the previous chunk; empty or unknown: start from the beginning.
        budget_ms: approximate time limit in milliseconds.
        most: approximate maximum number of matches.
    """
    chunk: Chunk[T] = Chunk([], 0, total, cursor)
    for step in steps(budget_ms, most):
        chunk.cursor, scanned, found = read(chunk.cursor, step)
        chunk.entries += found
        chunk.scanned += scanned
        if chunk.complete or (most is not None and len(chunk.entries) >= most):
            break
    chunk.scanned = min(chunk.scanned, total)
    return chunk


def deadline(budget_ms: float | None) -> Callable[[], bool]:
    """Return a function that returns true once the time budget is used up; None: no limit."""
    ends = math.inf if budget_ms is None else time.monotonic() + budget_ms / 1000
    return lambda: time.monotonic() >= ends
