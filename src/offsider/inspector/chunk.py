"""What a bounded look answers: a part of what there is, and where to go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Chunk(Generic[T]):
    """A part of a look through many jobs.

    Attributes:
        entries: what was found in this part.
        scanned: about how many jobs were looked at for it.
        total: how many jobs there are now.
        cursor: give it to the next look; empty when everything has been looked at.
    """

    entries: list[T]
    scanned: int
    total: int
    cursor: str

    @property
    def complete(self) -> bool:
        """Whether this was the last part."""
        return not self.cursor


@dataclass(frozen=True, slots=True)
class Preview:
    """What a bulk action would reach.

    Attributes:
        matched: jobs that fit, among those that were looked at.
        scanned: about how many were looked at.
        complete: whether that was all of them.
    """

    matched: int
    scanned: int
    complete: bool
