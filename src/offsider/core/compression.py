"""Compression of backtraces, in Sidekiq's format, and of large arguments, in GitLab's with keyword arguments.

``args`` is a list of one string, base64 of zlib of the arguments' JSON. A second string contains the keyword arguments,
if any. ``"compressed": true`` marks such a payload, and ``original_job_size_bytes`` is the size of the JSON. The other
keys are unchanged, so code that moves, retries or lists jobs need not handle compression.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping
from typing import Any, cast

from offsider.core.errors import MalformedPayload
from offsider.core.normalize import normalize
from offsider.core.payload import JobPayload, decode, encode_text, json_type

#: The key that marks a compressed payload. Payloads without it are not examined.
COMPRESSED = "compressed"
ORIGINAL_BYTES = "original_job_size_bytes"
#: Maximum size that is compressed or expanded: a few compressed kilobytes could exhaust the memory of a reader.
MAX_EXPANDED_BYTES = 10_000_000
#: Maximum memory of the values in a compressed text: a byte of JSON can take thirty bytes as objects.
MAX_VALUES_BYTES = 100_000_000
#: What a value of JSON takes in CPython, by the character before it: a small dict, a list, another value.
_VALUE_BYTES = {b"{": 240, b"[": 100, b",": 60}
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_SHORT = 8
#: Payloads up to this size are never compressed, regardless of the settings: they cost one comparison.
SMALL_BYTES = 1_000
# Above the size of any real backtrace; a crafted one must not exhaust the memory of its reader.
MAX_INFLATED_BYTES = 16 * 1024 * 1024
_MIME_LINE_BYTES = 45  # Ruby's pack("m") breaks its lines after 60 characters


def is_compressed(payload: Mapping[str, Any]) -> bool:
    """Whether the arguments are compressed. A key of the same name with another type does not count."""
    return payload.get(COMPRESSED) is True and ORIGINAL_BYTES in payload


def original_bytes(payload: Mapping[str, Any]) -> int:
    """Return the size of the arguments' JSON before compression, from the payload; 0 if they are not compressed."""
    said: object = payload[ORIGINAL_BYTES] if is_compressed(payload) else 0
    return said if type(said) is int and said > 0 else 0


def compress(payload: JobPayload) -> JobPayload:
    """Return the payload with compressed arguments; unchanged if they exceed a maximum of readers.

    Raises the exceptions of ``json`` for arguments that are not JSON.
    """
    parts = [encode_text(payload["args"]).encode()]
    if payload.get("kwargs"):
        parts.append(encode_text(payload.get("kwargs")).encode())
    size_bytes = sum(map(len, parts))
    if size_bytes > MAX_EXPANDED_BYTES or values_bytes(b",".join(parts)) > MAX_VALUES_BYTES:
        return payload
    packed = {key: value for key, value in payload.items() if key != "kwargs"}
    packed["args"] = [base64.b64encode(zlib.compress(part)).decode("ascii") for part in parts]
    return cast(JobPayload, packed | {COMPRESSED: True, ORIGINAL_BYTES: size_bytes})


def expand(payload: JobPayload, raw: bytes) -> JobPayload:
    """Return the payload with expanded arguments; the payload itself if they are not compressed.

    Args:
        payload: the result of `decode`.
        raw: its bytes, for the error.

    Raises:
        MalformedPayload: the compressed arguments cannot be read, or are larger than the payload declares.
    """
    if not is_compressed(payload):
        return payload
    packed = cast("dict[str, Any]", payload)
    try:
        args, kwargs = _expanded(packed["args"], packed[ORIGINAL_BYTES])
    except (ValueError, zlib.error) as error:
        raise MalformedPayload(raw, f"compressed arguments cannot be read: {error}") from error
    plain = {key: value for key, value in packed.items() if key not in {COMPRESSED, ORIGINAL_BYTES}}
    plain["args"] = args
    if kwargs:
        plain["kwargs"] = kwargs
    return cast(JobPayload, plain)


def readable(payload: JobPayload) -> JobPayload:
    """Like `expand`, for display: unreadable arguments stay as they are stored."""
    try:
        return expand(payload, b"")
    except MalformedPayload:
        return payload


def may_hold(payload: Mapping[str, Any], letters: bytes) -> bool:
    """Whether the JSON of compressed arguments contains ``letters``, which is cheaper than parsing it.

    True for payloads that are not compressed, or cannot be read.
    """
    most_bytes = original_bytes(payload)
    if not 0 < most_bytes <= MAX_EXPANDED_BYTES:
        return True
    try:
        return any(letters in _inflated(text, most_bytes) for text in payload["args"])
    except (ValueError, TypeError, zlib.error):
        return True


def values_bytes(text: bytes) -> int:
    """Estimate the memory of the values in JSON, without parsing it."""
    size_bytes = _counted(text)
    if size_bytes > MAX_VALUES_BYTES:  # brackets and commas of texts are no values
        size_bytes -= sum(_counted(found[0]) for found in _STRING.finditer(text) if len(found[0]) > _SHORT)
    return size_bytes


def _counted(text: bytes) -> int:
    return sum(text.count(before) * size_bytes for before, size_bytes in _VALUE_BYTES.items())


def decode_plain(raw: bytes) -> JobPayload:
    """Decode a job with uncompressed arguments and normalized options; never store the result.

    Raises MalformedPayload as `decode`, and as `expand`.
    """
    return normalize(expand(decode(raw), raw))


def _expanded(texts: object, size_bytes: object) -> tuple[list[Any], dict[str, Any]]:
    given = cast("list[object]", texts)
    if type(size_bytes) is not int or not 0 <= size_bytes <= MAX_EXPANDED_BYTES:
        raise ValueError(f"{ORIGINAL_BYTES} is not a number from 0 to {MAX_EXPANDED_BYTES}")
    if len(given) not in {1, 2} or not all(isinstance(text, str) for text in given):
        raise ValueError("args is not a list of one or two strings")
    parts: list[bytes] = []
    for text in given:
        parts.append(_inflated(cast(str, text), size_bytes))
        size_bytes -= len(parts[-1])
    kwargs = b"" if len(parts) == 1 else b',"kwargs":' + parts[1]
    text = b'{"class":"-","args":' + parts[0] + kwargs + b"}"
    if (takes := values_bytes(text)) > MAX_VALUES_BYTES:
        most = MAX_VALUES_BYTES // 1_000_000
        raise ValueError(
            f"their values would take about {takes // 1_000_000} MB of memory, more than {most} MB; "
            'push them in smaller jobs, or uncompressed (client.large_payloads = "track")'
        )
    del parts
    # Parsed as strictly as any payload; only these two keys are used.
    read = decode(text)
    names: object = read.get("kwargs", {})
    if not isinstance(names, dict):
        raise ValueError(f"'kwargs' is {json_type(names)}, expected an object")  # noqa: TRY004 - `expand` catches it
    return read["args"], cast("dict[str, Any]", names)


def _inflated(text: str, most_bytes: int) -> bytes:
    unpacker = zlib.decompressobj()
    part = unpacker.decompress(base64.b64decode(text, validate=True), most_bytes + 1)
    if len(part) > most_bytes:
        raise ValueError(f"longer than {ORIGINAL_BYTES} says")
    if not unpacker.eof:
        raise ValueError("they are truncated")
    return part


def compress_backtrace(lines: list[str], wire_version: int) -> str:
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


def expand_backtrace(text: str) -> list[str]:
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
