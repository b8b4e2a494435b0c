"""Limits a warning to one per process, whichever thread logs it first."""

from __future__ import annotations

#: Maximum number of remembered warnings. Payloads may name any number of classes, so that all are forgotten beyond it.
MOST = 500

_seen: dict[tuple[str, ...], object] = {}


def first_time(*about: str) -> bool:
    """Return True for the first call of this process with these arguments."""
    if about not in _seen and len(_seen) >= MOST:
        _seen.clear()
    mine = object()
    return _seen.setdefault(about, mine) is mine  # one atomic step: of several threads one is the first
