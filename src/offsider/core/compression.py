"""Arguments that are stored compressed, because they are large: GitLab's form, with a place for keyword arguments.

``args`` is a list of one text, base64 of zlib of the arguments' JSON; a second text holds the keyword ones, if any.
``"compressed": true`` says so, and ``original_job_size_bytes`` how long that JSON was. All other keys stay as they
are, so whoever moves, retries or lists such a job need not know of it.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any, cast

from offsider.core.errors import MalformedPayload
from offsider.core.payload import JobPayload, decode, encode_text

#: The key that tells. A payload without it is never looked at twice.
COMPRESSED = "compressed"
ORIGINAL_BYTES = "original_job_size_bytes"
#: More is neither compressed nor expanded: a few kilobytes could fill the memory of whoever looks at them.
MAX_EXPANDED_BYTES = 10_000_000
#: Payloads up to here are small, whatever the settings say: one comparison is all that they cost.
SMALL_BYTES = 1_000


def is_compressed(payload: Mapping[str, Any]) -> bool:
    """Whether the arguments are compressed. A key of somebody's own that is called the same does not make them so."""
    return payload.get(COMPRESSED) is True and ORIGINAL_BYTES in payload


def original_bytes(payload: Mapping[str, Any]) -> int:
    """How long the arguments' JSON was before they were compressed, as the payload says; 0 when they are not."""
    said: object = payload[ORIGINAL_BYTES] if is_compressed(payload) else 0
    return said if type(said) is int and said > 0 else 0


def compress(payload: JobPayload) -> JobPayload:
    """The same job with its arguments compressed; as it is when they are too large to be read again.

    Raises whatever ``json`` raises for arguments that are not JSON.
    """
    parts = [encode_text(payload["args"]).encode()]
    if payload.get("kwargs"):
        parts.append(encode_text(payload.get("kwargs")).encode())
    size_bytes = sum(map(len, parts))
    if size_bytes > MAX_EXPANDED_BYTES:
        return payload
    packed = {key: value for key, value in payload.items() if key != "kwargs"}
    packed["args"] = [base64.b64encode(zlib.compress(part)).decode("ascii") for part in parts]
    return cast(JobPayload, packed | {COMPRESSED: True, ORIGINAL_BYTES: size_bytes})


def expand(payload: JobPayload, raw: bytes) -> JobPayload:
    """The same job with its arguments as they were given; the payload itself when they are not compressed.

    Args:
        payload: as `decode` reads it.
        raw: its bytes, for the error.

    Raises:
        MalformedPayload: it says that they are compressed, and they cannot be read, or are longer than it says.
    """
    if not is_compressed(payload):
        return payload
    packed = cast("dict[str, Any]", payload)
    try:
        args, kwargs = _expanded(packed["args"], packed[ORIGINAL_BYTES])
    except (ValueError, zlib.error) as error:
        raise MalformedPayload(raw, f"compressed arguments that cannot be read: {error}") from error
    plain = {key: value for key, value in packed.items() if key not in {COMPRESSED, ORIGINAL_BYTES}}
    plain["args"] = args
    if kwargs:
        plain["kwargs"] = kwargs
    return cast(JobPayload, plain)


def readable(payload: JobPayload) -> JobPayload:
    """The same as `expand`, for whoever only looks: what cannot be read stays as it is stored."""
    try:
        return expand(payload, b"")
    except MalformedPayload:
        return payload


def may_hold(payload: Mapping[str, Any], letters: bytes) -> bool:
    """Whether these letters stand in the JSON of compressed arguments, which is cheaper than reading it.

    True for all that is not compressed, or cannot be read.
    """
    most_bytes = original_bytes(payload)
    if not 0 < most_bytes <= MAX_EXPANDED_BYTES:
        return True
    try:
        return any(letters in _inflated(text, most_bytes) for text in payload["args"])
    except (ValueError, TypeError, zlib.error):
        return True


def decode_plain(raw: bytes) -> JobPayload:
    """Read stored bytes as a job whose arguments are as they were given.

    Raises MalformedPayload as `decode`, and as `expand`.
    """
    return expand(decode(raw), raw)


def _expanded(texts: object, size_bytes: object) -> tuple[list[Any], dict[str, Any]]:
    given = cast("list[object]", texts)
    if type(size_bytes) is not int or not 0 <= size_bytes <= MAX_EXPANDED_BYTES:
        raise ValueError(f"{ORIGINAL_BYTES} is no number from 0 to {MAX_EXPANDED_BYTES}")
    if len(given) not in {1, 2} or not all(isinstance(text, str) for text in given):
        raise ValueError("args is not a list of one text, or of two")
    parts: list[bytes] = []
    for text in given:
        parts.append(_inflated(cast(str, text), size_bytes))
        size_bytes -= len(parts[-1])
    kwargs = b"" if len(parts) == 1 else b',"kwargs":' + parts[1]
    # As strict as any payload: whatever else may stand in there, these two keys alone are taken.
    read = decode(b'{"class":"-","args":' + parts[0] + kwargs + b"}")
    return read["args"], read.get("kwargs", {})


def _inflated(text: str, most_bytes: int) -> bytes:
    unpacker = zlib.decompressobj()
    part = unpacker.decompress(base64.b64decode(text, validate=True), most_bytes + 1)
    if len(part) > most_bytes:
        raise ValueError(f"longer than {ORIGINAL_BYTES} says")
    if not unpacker.eof:
        raise ValueError("they are cut off")
    return part
