"""The nearest known name, for messages about unknown ones."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.7) -> str | None:
    """Return the known name most similar to ``name``; None if no similarity, 0 to 1, reaches ``cutoff``."""
    # Imported lazily: slow to import, and needed for error messages only.
    from difflib import get_close_matches

    matches = get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return matches[0] if matches else None


def suggest(name: str, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x'?)"``, or an empty string if no known name is similar."""
    match = nearest(name, known)
    return f" (did you mean {match!r}?)" if match else ""
