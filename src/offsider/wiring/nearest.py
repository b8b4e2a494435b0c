"""The nearest known name, for messages about unknown ones."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.7) -> str | None:
    """The known name most like ``name``; None when none is so close as ``cutoff``, from 0 to 1."""
    # Imported here: needed only on the way to an error message, and not cheap.
    from difflib import get_close_matches

    matches = get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return matches[0] if matches else None


def suggest(name: str, known: Iterable[str]) -> str:
    """``" (did you mean 'x'?)"``, or nothing when no known name is close."""
    match = nearest(name, known)
    return f" (did you mean {match!r}?)" if match else ""
