"""What others have stored, made fit for a terminal: no control characters, no line breaks, no endless lines."""

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
    """One line of at most ``most`` characters; what a terminal would obey is shown as its escape in Python."""
    cut = text if len(text) <= most else f"{text[: most - 1]}…"
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in cut)


def plain_arguments(arguments: Sequence[Any], most: int = 60) -> str:
    """The arguments of a job, cut; however large they are, only what is shown is looked at."""
    return plain(_ARGUMENTS.repr(list(arguments[:8]))[1:-1], most)


def listed_arguments(record: JobRecord, most: int = 60) -> str:
    """The same of a stored job; of large ones that are compressed only how large they are."""
    if record.unlisted_bytes:
        return f"compressed, {record.unlisted_bytes:,} bytes"
    return plain_arguments(record.display_args, most)
