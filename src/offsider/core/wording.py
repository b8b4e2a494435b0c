"""Numbers and names in messages for people."""

from __future__ import annotations

from collections.abc import Iterable


def counted(number: int, noun: str) -> str:
    """``1 job``, ``2 jobs``: for nouns that take an s."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(names: Iterable[str], most: int = 3) -> str:
    """``a, b, c and 2 more``: sorted, the first ``most`` of them by name."""
    every = sorted(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return f"{', '.join(every[:most])}{more}"
