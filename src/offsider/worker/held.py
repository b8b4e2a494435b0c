"""What a fetcher holds by its own count, to be compared with what lies in its private lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from offsider.storage.working import Entry

if TYPE_CHECKING:
    from offsider.worker.unit_of_work import UnitOfWork


class Held:
    """The units that were claimed and whose outcome is not written yet.

    Two byte-equal payloads in flight are two units. Adding and removing are single steps of a set, since they
    happen for every job; entries are only built for a comparison.
    """

    def __init__(self) -> None:
        self._units: set[UnitOfWork] = set()

    def add(self, units: Iterable[UnitOfWork]) -> None:
        self._units.update(units)

    def remove(self, units: Iterable[UnitOfWork]) -> None:
        self._units.difference_update(units)

    def copies(self, entry: Entry) -> int:
        """How many units of these very bytes are held."""
        return sum(1 for unit in self._units.copy() if unit.entry == entry)

    def of(self, identity: str) -> Counter[Entry]:
        """What is held under one identity."""
        entries = (unit.entry for unit in self._units.copy())
        return Counter(entry for entry in entries if entry is not None and entry.owner.identity == identity)
