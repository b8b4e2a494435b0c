"""One chunk of a scan with a time budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Chunk(Generic[T]):
    """One chunk of a scan.

    Attributes:
        entries: matching jobs in this chunk.
        scanned: approximate number of jobs scanned for this chunk.
        total: current number of jobs.
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
