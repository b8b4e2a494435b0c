"""The fetcher's own record of claimed jobs, for comparison with its private lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offsider.storage.working import PrivateListEntry
    from offsider.worker.unit_of_work import UnitOfWork


class InFlight:
    """Claimed units whose disposition is not written yet.

    Two byte-equal payloads are two units. Adding and removing happen for every job, so each is a single set operation;
    entries are created only for a comparison.
    """

    def __init__(self) -> None:
        self._units: set[UnitOfWork] = set()

    def __len__(self) -> int:
        return len(self._units)

    def add(self, units: Iterable[UnitOfWork]) -> None:
        self._units.update(units)

    def remove(self, units: Iterable[UnitOfWork]) -> None:
        self._units.difference_update(units)

    def copies(self, entry: PrivateListEntry) -> int:
        """Return the number of units with these bytes."""
        return sum(1 for unit in self._units.copy() if unit.entry == entry)

    def of(self, identity: str) -> Counter[PrivateListEntry]:
        """Return the entries that were claimed under one identity."""
        entries = (unit.entry for unit in self._units.copy())
        return Counter(entry for entry in entries if entry.owner.identity == identity)
