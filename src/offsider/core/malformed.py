"""Wraps malformed payloads in a job, so that the Dead pages of Ruby and Python can list them.

Ruby's Dead page fails completely if one entry is JSON but not an object. A wrapper has a class, arguments, a jid, a
queue and an error, and the original bytes in base64. Each wrapper has a new jid, so the dead set keeps equal bytes
twice. A worker never runs a wrapper: `decode` rejects it, so that a retry moves it back to the dead set unchanged.
"""

from __future__ import annotations

import base64
import json
from typing import Any, cast

from offsider.core.errors import MalformedPayload
from offsider.core.normalize import normalize
from offsider.core.payload import MALFORMED_CLASS, JobPayload, decode, decode_object, encode, new_jid

#: Payload key of the original bytes, in base64.
RAW = "malformed_base64"
#: Size of the excerpt shown as the argument.
_SHOWN_BYTES = 1_000
_KEY = RAW.encode()


def wrap(error: MalformedPayload, queue: str, now: float) -> bytes:
    """Wrap the bytes of ``error``; bytes that are a wrapper are returned unchanged.

    Args:
        error: the decoding error, with the raw bytes.
        queue: the queue of the wrapper.
        now: the time, as returned by `stamp`.
    """
    if unwrap(error.raw) is not None:
        return error.raw
    wrapper: dict[str, Any] = {
        # Sidekiq moves it back to the dead set after a manual retry.
        "retry": 0,
        "queue": queue,
        "class": MALFORMED_CLASS,
        "args": [error.raw[:_SHOWN_BYTES].decode("utf-8", "replace")],
        "jid": new_jid(),
        "created_at": now,
        "error_message": str(error),
        "error_class": MALFORMED_CLASS,
        "failed_at": now,
        RAW: base64.b64encode(error.raw).decode("ascii"),
    }
    return encode(wrapper)


def listable(raw: bytes, now: float) -> bytes:
    """The entry to store in the dead set: a job unchanged, other bytes wrapped."""
    try:
        decode(raw)
    except MalformedPayload as error:
        return wrap(error, queue_of(raw) or "default", now)
    return raw


def wrapper_of(raw: bytes) -> JobPayload | None:
    """Decode a wrapper; None if ``raw`` is not a wrapper."""
    if _KEY not in raw:
        return None
    try:
        wrapper = decode_object(raw)
    except MalformedPayload:
        return None
    return (
        cast("JobPayload", wrapper)
        if wrapper.get("class") == MALFORMED_CLASS and _bytes_in(wrapper) is not None
        else None
    )


def unwrap(raw: bytes) -> bytes | None:
    """Return the original bytes of a wrapper; None if ``raw`` is not a wrapper."""
    wrapper = wrapper_of(raw)
    return None if wrapper is None else _bytes_in(cast("dict[str, object]", wrapper))


def _bytes_in(wrapper: dict[str, object]) -> bytes | None:
    text = wrapper.get(RAW)
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else None
    except ValueError:
        return None


def queue_of(raw: bytes) -> str:
    """Return the queue that an object names; empty if it names none.

    Also reads objects that `decode` rejects because they cannot be encoded again, for example with the number 1e999.
    """
    try:
        found: object = json.loads(raw.decode())
        queue = normalize(cast("JobPayload", found)).get("queue", "") if isinstance(found, dict) else ""
        queue.encode()
    except (ValueError, RecursionError):
        return ""
    return queue
