"""Backtraces in payloads: base64 of zlib of a JSON array, readable by Sidekiq's web page."""

from __future__ import annotations

import base64
import json
import zlib
from typing import cast

from offsider.core.compression import MAX_VALUES_BYTES, values_bytes

# Above the size of any real backtrace; a crafted one must not exhaust the memory of its reader.
MAX_INFLATED_BYTES = 16 * 1024 * 1024
_MIME_LINE_BYTES = 45  # Ruby's pack("m") breaks its lines after 60 characters


def compress(lines: list[str], wire_version: int) -> str:
    """Pack ``lines`` for the payload key ``error_backtrace``.

    Sidekiq 7 and 8 write one long line, 6 writes MIME lines of 60 characters.
    Characters that are not valid Unicode (lone surrogates) become ``?``.
    """
    text = json.dumps(lines, ensure_ascii=False, separators=(",", ":"))
    packed = zlib.compress(text.encode("utf-8", "replace"))
    if wire_version >= 7:
        return base64.b64encode(packed).decode("ascii")
    chunks = (packed[start : start + _MIME_LINE_BYTES] for start in range(0, len(packed), _MIME_LINE_BYTES))
    return "".join(base64.b64encode(chunk).decode("ascii") + "\n" for chunk in chunks)


def inflate(text: str) -> list[str]:
    """Return the lines of ``error_backtrace``, written by any version. Raises ValueError if it contains no lines."""
    try:
        unpacker = zlib.decompressobj()
        unpacked = unpacker.decompress(base64.b64decode(text), MAX_INFLATED_BYTES)
        if values_bytes(unpacked) > MAX_VALUES_BYTES:
            raise ValueError("more values than any backtrace has")
        lines = cast("list[object]", json.loads(unpacked.decode("utf-8")))
        return [str(line) for line in lines]
    except (zlib.error, RecursionError, TypeError) as error:
        raise ValueError(f"not a compressed backtrace: {error}") from error
