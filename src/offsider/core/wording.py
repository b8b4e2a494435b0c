"""Numbers in messages for people."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """``1 job``, ``2 jobs``: for nouns that take an s."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
