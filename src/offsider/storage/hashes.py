"""Parses HGETALL replies, and fields that any client may have written.

No function raises an error: one odd field must not hide the others.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from offsider.storage.redis import Redis

#: Elements of one step of a scan.
_SCANNED = 500
#: Larger numbers are invalid as a time, as kilobytes, and as a number of jobs.
MAX_NUMBER = 1e15
_WHOLE = re.compile(r"-?[0-9]{1,18}")


def pairs(reply: object) -> Iterable[tuple[bytes, bytes]]:
    """Return fields and values; none for an error reply."""
    values = cast("list[bytes]", reply) if isinstance(reply, list) else []
    return zip(values[::2], values[1::2], strict=True)


def scores(reply: object) -> list[tuple[bytes, float]]:
    """Parse the members of a sorted set with their scores; none for an error reply."""
    return [(member, float(score)) for member, score in pairs(reply)]


def text(raw: bytes) -> str:
    """Decode a name; invalid UTF-8 is replaced."""
    return raw.decode("utf-8", "replace")


def texts(reply: object) -> Iterator[tuple[str, str]]:
    """Like `pairs`, decoded; invalid UTF-8 is replaced."""
    for field, value in pairs(reply):
        yield text(field), text(value)


def scanned(redis: Redis, command: str, key: str) -> Iterator[list[bytes]]:
    """Yield the elements of a hash, set or sorted set in parts; one that leaves meanwhile may be missing.

    Args:
        command: ``HSCAN``, ``SSCAN`` or ``ZSCAN``.
    """
    cursor = b"0"
    while True:
        cursor, found = redis.call(command, key, cursor, "COUNT", _SCANNED)
        yield found
        if cursor == b"0":
            return


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


def text_field(value: object) -> str:
    """Return a string of a JSON object; empty for a value of another type."""
    return value if isinstance(value, str) else ""


def number_field(value: Any) -> float:
    """Return a number of a JSON object or a hash; 0 for anything else, and above `MAX_NUMBER`."""
    found = number(value)
    return 0.0 if found is None or abs(found) > MAX_NUMBER else found


def whole(stored: bytes | str | int | None) -> int | None:
    """Parse a whole number of up to 18 digits; None for anything else."""
    if isinstance(stored, int):
        return stored
    written = text(stored) if isinstance(stored, bytes) else stored
    return int(written) if isinstance(written, str) and _WHOLE.fullmatch(written) else None


def count(stored: Any) -> int:
    """Parse a count of another client; 0 for anything else, such as an error reply."""
    return whole(stored) or 0


def number(stored: Any) -> float | None:
    """Parse a finite number, such as a time in seconds; None for anything else."""
    try:
        found = float(stored)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def wholes(reply: object) -> dict[str, int]:
    """Parse a hash of whole numbers, without the fields that have none."""
    return {name: value for name, stored in texts(reply) if (value := whole(stored)) is not None}
