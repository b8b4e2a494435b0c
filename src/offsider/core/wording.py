"""Formats numbers and names for messages, and limits a message to one per process."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterable

#: Maximum number of remembered warnings. Payloads may name any number of classes, so that all are forgotten beyond it.
MAX_REMEMBERED = 500

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400

_seen: dict[tuple[str, ...], object] = {}


def shown(value: object) -> str:
    """Return the repr of an option; not of a large int, which may raise an error."""
    return "an int of more than 20 digits" if isinstance(value, int) and abs(value) >= 10**20 else repr(value)


def counted(number: int, noun: str) -> str:
    """``1 job``, ``1,200 jobs``, ``2 processes``, ``2 pushes``: for nouns with a plural in s or es."""
    if number == 1:
        return f"{number} {noun}"
    return f"{number:,} {noun}{'es' if noun.endswith(('s', 'sh', 'ch')) else 's'}"


def duration(seconds: float) -> str:
    """Format as ``0.25 s``, ``42 s``, ``3 min 20 s``, ``5 h 10 min``, ``12 d 3 h``; never negative."""
    if seconds < 10:
        return f"{max(0.0, seconds):.2f} s"
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def listed(names: Iterable[str], most: int = 5) -> str:
    """``a, b, c and 2 more``: the first ``most`` names, in their order."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return f"{', '.join(every[:most])}{more}"


def shell_words(*words: str) -> str:
    """Quote arguments for a command line that a message proposes: a stored name is never shell syntax or an option."""
    return shlex.join(("--", *words) if any(word.startswith("-") for word in words) else words)


def first_time(*about: str) -> bool:
    """Return True for the first call of this process with these arguments."""
    if about not in _seen and len(_seen) >= MAX_REMEMBERED:
        _seen.clear()
    mine = object()
    return _seen.setdefault(about, mine) is mine  # one atomic step: of several threads one is the first


def described(status: int) -> str:
    """Describe a status of `os.waitpid` in words."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
