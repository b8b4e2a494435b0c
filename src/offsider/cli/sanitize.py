"""Sanitize stored text for a terminal: no control characters, no line breaks, limited length."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from offsider.inspector import JobRecord

_ARGUMENTS = reprlib.Repr()
_ARGUMENTS.maxstring = _ARGUMENTS.maxother = _ARGUMENTS.maxlong = 60
_ARGUMENTS.maxlist = _ARGUMENTS.maxdict = 8
_ARGUMENTS.maxlevel = 4


def plain(text: str, most: int = 200) -> str:
    """Return one line of at most ``most`` characters; control characters become Python escapes."""
    cut = text if len(text) <= most else f"{text[: most - 1]}…"
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in cut)


def plain_arguments(arguments: Sequence[Any], most: int = 60) -> str:
    """Format the arguments of a job, truncated; reads only the part that is shown."""
    return plain(_ARGUMENTS.repr(list(arguments[:8]))[1:-1], most)


def listed_arguments(record: JobRecord, most: int = 60) -> str:
    """Format the arguments of a stored job; for large compressed arguments only their size."""
    if record.unlisted_bytes:
        return f"compressed, {record.unlisted_bytes:,} bytes"
    return plain_arguments(record.display_args, most)
