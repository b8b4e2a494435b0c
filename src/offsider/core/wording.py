"""Formats numbers and names for messages."""

from __future__ import annotations

import shlex
from collections.abc import Iterable


def shown(value: object) -> str:
    """Return the repr of an option; not of a large int, which may raise an error."""
    return "an int of more than 20 digits" if isinstance(value, int) and abs(value) >= 10**20 else repr(value)


def counted(number: int, noun: str) -> str:
    """``1 job``, ``2 jobs``, ``2 processes``, ``2 pushes``: for nouns with a plural in s or es."""
    if number == 1:
        return f"{number} {noun}"
    return f"{number} {noun}{'es' if noun.endswith(('s', 'sh', 'ch')) else 's'}"


def listed(names: Iterable[str], most: int = 5) -> str:
    """``a, b, c and 2 more``: the first ``most`` names, in their order."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return f"{', '.join(every[:most])}{more}"


def shell_words(*words: str) -> str:
    """Quote arguments for a command line that a message proposes: a stored name is never shell syntax or an option."""
    return shlex.join(("--", *words) if any(word.startswith("-") for word in words) else words)
