"""Parses HGETALL replies, and fields that any client may have written.

No function raises an error: one odd field must not hide the others.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

_WHOLE = re.compile(r"-?[0-9]{1,18}")


def pairs(reply: object) -> Iterable[tuple[bytes, bytes]]:
    """Return fields and values; none for an error reply."""
    values = cast("list[bytes]", reply) if isinstance(reply, list) else []
    return zip(values[::2], values[1::2], strict=True)


def text(raw: bytes) -> str:
    """Decode a name; invalid UTF-8 is replaced."""
    return raw.decode("utf-8", "replace")


def texts(reply: object) -> Iterator[tuple[str, str]]:
    """Like `pairs`, decoded; invalid UTF-8 is replaced."""
    for field, value in pairs(reply):
        yield text(field), text(value)


def json_object(raw: bytes) -> dict[str, Any]:
    """Parse a JSON object; anything else is empty."""
    found = json_value(raw)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def json_value(raw: bytes | str) -> object:
    """Parse a JSON value; None if it is malformed."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def whole(stored: bytes | str | int | None) -> int | None:
    """Parse a whole number of up to 18 digits; None for anything else."""
    if isinstance(stored, int):
        return stored
    written = text(stored) if isinstance(stored, bytes) else stored
    return int(written) if isinstance(written, str) and _WHOLE.fullmatch(written) else None


def number(stored: bytes | str | None) -> float | None:
    """Parse a finite number, such as a time in seconds; None for anything else."""
    try:
        found = math.nan if stored is None else float(stored)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def wholes(reply: object) -> dict[str, int]:
    """Parse a hash of whole numbers, without the fields that have none."""
    return {name: value for name, stored in texts(reply) if (value := whole(stored)) is not None}
