"""Parses HGETALL replies of RESP2 and RESP3, and stored JSON objects."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, cast


def pairs(reply: object) -> Iterable[tuple[bytes, bytes]]:
    """Return fields and values from a list (RESP2) or a dict (RESP3); none for an error reply."""
    if isinstance(reply, dict):
        return cast("dict[bytes, bytes]", reply).items()
    values = cast("list[bytes]", reply) if isinstance(reply, list) else []
    return zip(values[::2], values[1::2], strict=True)


def texts(reply: object) -> Iterator[tuple[str, str]]:
    """Like `pairs`, decoded; invalid UTF-8 is replaced."""
    for field, value in pairs(reply):
        yield field.decode("utf-8", "replace"), value.decode("utf-8", "replace")


def json_object(raw: bytes) -> dict[str, Any]:
    """Parse a JSON object; anything else is empty: one malformed value must not hide the others."""
    try:
        found: object = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
