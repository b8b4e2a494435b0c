"""What a fetcher holds by its own count, to be compared with what lies in its private lists."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable

from offsider.storage.working import Entry


class Held:
    """A multiset of entries; two byte-equal payloads in flight count as two."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: Counter[Entry] = Counter()

    def add(self, entries: Iterable[Entry]) -> None:
        with self._lock:
            self._entries.update(entries)

    def remove(self, entry: Entry) -> None:
        with self._lock:
            self._entries[entry] -= 1
            if self._entries[entry] <= 0:
                del self._entries[entry]

    def copies(self, entry: Entry) -> int:
        with self._lock:
            return self._entries[entry]

    def of(self, identity: str) -> Counter[Entry]:
        """A copy of what is held under one identity."""
        with self._lock:
            return Counter({entry: count for entry, count in self._entries.items() if entry.owner.identity == identity})
