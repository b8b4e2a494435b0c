"""The stored form of a job: its keys, its encoding, and strict decoding of foreign bytes."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any, Literal, NoReturn, Required, TypedDict, cast

from offsider.core.errors import MalformedPayload, RescheduleCounter

#: Maximum nesting of a pushed payload, including the payload itself. It is the limit of Ruby's JSON (``max_nesting``);
#: Ruby's scheduler loses jobs that it cannot parse.
MAX_NESTING = 100
# Stored jobs may be nested deeper. CPython's own limit depends on the version and on the caller's stack depth; a fixed
# limit gives the same result everywhere.
_MAX_READ_NESTING = 500
_TOO_DEEP = f"nested deeper than {_MAX_READ_NESTING} levels"

#: Bytes in the payload of every stranded job, and of few others.
_STRANDED = b'"stranded_at"'

#: Class of the wrapper that `malformed` creates for the dead set.
MALFORMED_CLASS = "offsider.MalformedPayload"

JobPayload = TypedDict(
    "JobPayload",
    {
        "class": Required[str],
        "args": Required[list[Any]],
        "kwargs": dict[str, Any],
        "jid": str,
        "queue": str,
        "routed": bool,
        "at": float,
        "created_at": int | float,
        "enqueued_at": int | float,
        "retry": bool | int | None,
        "retry_for": int | float | None,
        "retry_queue": str | None,
        "dead": bool | None,
        "backtrace": bool | int | None,
        "tags": list[str] | None,
        "log_level": str | None,
        "expires_in": int | float | None,
        "expiry": float,
        "soft_timeout": int | float | None,
        "hard_timeout": int | float | None,
        "profile": str,
        "profiler_options": dict[str, Any],
        "bid": str,
        "wrapped": str,
        "display_class": str,
        "cattr": dict[str, Any] | list[Any],
        "interrupted_count": int,
        "rescheduled_count": int,
        "overrated": int,
        "signature": str,
        "app_version": str,
        "stranded_at": int | float,
        "retry_count": int,
        "failed_at": int | float,
        "retried_at": int | float,
        "discarded_at": int | float,
        "error_class": str,
        "error_message": str,
        "error_backtrace": str,
        "error_frame": str,
    },
    total=False,
)
"""Sidekiq's payload keys, and some of ours: ``kwargs`` (keyword-only arguments), ``interrupted_count``,
``rescheduled_count``, ``overrated`` (reschedules by limiters), ``expiry`` (epoch seconds, as in Sidekiq Pro), the
limits ``soft_timeout`` and ``hard_timeout`` (seconds), ``signature`` and ``app_version`` (the parameters the arguments
were made for, and the version that pushed them), ``stranded_at`` (when the job was first stranded), ``error_frame``
(the top application frame of the last error, as ``file:function``), ``routed`` (True: a routing rule chose the queue;
False: the application did, although it is the default queue of the class or a rule would have chosen another one).

Other keys are allowed and survive every round trip. The ``*_at`` stamps are integer milliseconds
(Sidekiq 8) or float seconds (6, 7): read them with `read_stamp`.
"""


def new_jid() -> str:
    """Return a new job id of 24 hex digits. Not from a pool, which would repeat ids after a fork or in a cloned VM."""
    return os.urandom(12).hex()


def new_jids(count: int) -> list[str]:
    """Return new job ids for a batch that is stored immediately; none is kept for later."""
    digits = os.urandom(12 * count).hex()
    return [digits[start : start + 24] for start in range(0, len(digits), 24)]


def json_encoder(
    quote: str, separators: tuple[str, str], default: Callable[[object], object] | None = None
) -> Callable[[Any], str]:
    """Return a function that encodes values with one C encoder: creating one takes as long as encoding a payload.

    It has no markers to detect cycles: threads share it, and a cycle raises RecursionError anyway.

    Args:
        quote: the name of the function in `json.encoder` that encodes strings.
        separators: the text between items, and between a key and its value.
        default: returns a JSON value for a value of another type; without it, such a value raises TypeError.
    """
    encoder: Any = json.encoder
    chunks = encoder.c_make_encoder(
        None,
        default or json.JSONEncoder().default,
        getattr(encoder, quote),
        None,
        separators[1],
        separators[0],
        False,
        False,
        False,
    )
    return lambda value: "".join(chunks(value, 0))


encode_text = json_encoder("encode_basestring", (",", ":"))
"""Encode a part of a payload as JSON text. Raises the exceptions of ``json``; `encode` raises only ValueError."""


def encode(payload: Mapping[str, Any]) -> bytes:
    """Encode a payload as Sidekiq does: compact, raw UTF-8, keys in their order.

    Raises ValueError for values that are not JSON (including UnicodeEncodeError for a lone surrogate).
    """
    try:
        return encode_text(payload).encode("utf-8")
    except TypeError as error:
        raise ValueError(str(error)) from error
    except RecursionError as error:
        raise ValueError("nested too deeply for JSON") from error


def decode(raw: bytes) -> JobPayload:
    """Decode a stored job, with all values as they are stored; `normalize` converts the types of optional values.

    Raises MalformedPayload if the bytes are not a JSON object that can be encoded again, or if class or args are
    missing.
    """
    payload: JobPayload = decode_object(raw)
    missing = no_job(payload)
    if missing:
        raise MalformedPayload(raw, missing)
    return payload


def decode_or_none(raw: bytes) -> JobPayload | None:
    """Decode a stored job; None if the bytes are malformed."""
    try:
        return decode(raw)
    except MalformedPayload:
        return None


def decode_object(raw: bytes) -> Any:
    """Decode stored bytes as an object (a dict with str keys), which need not be a job.

    Raises MalformedPayload if they are not a JSON object that can be encoded again.
    """
    try:
        payload = _read_first(raw)
    except _refusals:  # the standard library decides what is JSON, and explains errors
        payload = _read_again(raw)
    if len(raw) > _MAX_READ_NESTING and _opens(raw, _MAX_READ_NESTING) and _depth(payload) > _MAX_READ_NESTING:
        raise MalformedPayload(raw, _TOO_DEEP)
    if not isinstance(payload, dict):
        raise MalformedPayload(raw, f"expected an object, got {json_type(payload)}")
    return payload  # pyright: ignore[reportUnknownVariableType] - `cast` costs every job a call


def expires_at(payload: JobPayload) -> float | None:
    """Return when a job expires, in epoch seconds; None if it does not.

    Ruby's free client stores only the option; then the job expires that many seconds after its creation.
    """
    at, seconds = payload.get("expiry"), payload.get("expires_in")
    if at is None and seconds is not None:
        created_at = read_stamp(payload.get("created_at"))
        return None if created_at is None else created_at + seconds
    return at


def no_job(payload: Mapping[str, Any]) -> str:
    """Return why an object is not a job: no class, no args, or a wrapper of a malformed payload; empty for a job."""
    name = payload.get("class")
    if name and type(name) is str and type(payload.get("args")) is list and name != MALFORMED_CLASS:  # most payloads
        return ""
    for key, kind in _REQUIRED.items():
        if key not in payload:
            return f"has no {key!r}"
        value = payload[key]
        if type(value) is not kind:
            return f"{key!r} is {json_type(value)}, expected {JSON_TYPES[kind]}"
    return "wraps bytes that are not a job" if name else "'class' is empty"


def shown_class(payload: Mapping[str, Any]) -> str:
    """The class to show in metrics and log lines; for an Active Job the wrapped class, as in Ruby."""
    wrapped = payload.get("wrapped")
    return wrapped if isinstance(wrapped, str) and wrapped else payload.get("class", "")


def stamp(now_seconds: float, wire_version: int) -> int | float:
    """Convert a time to its payload form: integer milliseconds for Sidekiq 8, float seconds for 6 and 7."""
    return int(now_seconds * 1000) if wire_version >= 8 else float(now_seconds)


def read_stamp(value: object) -> float | None:
    """Convert a payload stamp of any version to epoch seconds: an int is milliseconds, a float is seconds."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return value
    if isinstance(value, int):
        try:
            return value / 1000
        except OverflowError:  # not a plausible time
            return None
    return None


def _refuse_constant(literal: str) -> NoReturn:
    raise ValueError(f"{literal} is not JSON")


def _finite(literal: str) -> float:
    number = float(literal)
    if not math.isfinite(number):
        # It would load as infinity, which cannot be encoded when a failed job is stored again.
        raise ValueError("a number is out of range")  # without the number: arguments must not reach the log
    return number


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)

#: The scanner that `json` calls after skipping whitespace; not in the stubs.
_scan: Callable[[str, int], tuple[object, int]] = cast("Any", _DECODER).scan_once


def _read(raw: bytes) -> Any:
    text = raw.decode("utf-8")
    # Compact JSON, as all clients write it, needs no search for whitespace before and after.
    value, end = None, -1
    with suppress(StopIteration):  # no JSON value starts here
        value, end = _scan(text, 0)
    if end != len(text):
        value = _DECODER.decode(text)
    # Only an escape can contain a lone surrogate in valid UTF-8. The search for one byte takes a tenth of the time.
    if raw.find(b"\\") >= 0 and (raw.find(b"\\ud") >= 0 or raw.find(b"\\uD") >= 0):
        encode({"": value})
    return value


def _read_again(raw: bytes) -> Any:
    try:
        return _read(raw)
    except (ValueError, RecursionError) as error:
        raise MalformedPayload(raw, _reason(error)) from None  # the reason has its text


_read_first: Callable[[bytes], Any] = _read
#: What it raises. Not every exception: one that interrupts a job may be raised here.
_refusals: tuple[type[Exception], ...] = (ValueError, RecursionError)


def use_msgspec() -> None:
    """Decode with msgspec from now on, if it is installed: the same results in a third of the time.

    Only workers do so: importing it takes longer than all of offsider.
    """
    global _read_first, _refusals
    with suppress(ImportError):
        from msgspec import MsgspecError
        from msgspec.json import Decoder

        _read_first, _refusals = Decoder().decode, (ValueError, RecursionError, MsgspecError)


_CONTAINERS: tuple[type, ...] = (list, dict, tuple)  # JSON encodes a tuple as an array


def check_nesting(raw: bytes, payload: object, most: int = MAX_NESTING) -> None:
    """Raise ValueError if ``payload``, encoded as ``raw``, has more levels than ``most``."""
    if len(raw) > most and _opens(raw, most) and _depth(payload) > most:
        raise ValueError(f"nested deeper than {most} levels")


def _opens(raw: bytes, levels: int) -> bool:
    """Whether JSON has more opening brackets than ``levels``, in strings too; counting all takes ten times as long."""
    for bracket in (b"[", b"{"):
        at = raw.find(bracket)
        while at >= 0:
            levels -= 1
            if levels < 0:
                return True
            at = raw.find(bracket, at + 1)
    return False


def _depth(value: object) -> int:
    """Return the nesting depth of containers, computed without recursion."""
    depth = 0
    level: Iterable[object] = [value]
    while containers := [item for item in level if isinstance(item, _CONTAINERS)]:
        depth += 1
        level = chain.from_iterable(map(_items, containers))
    return depth


def _items(container: object) -> Iterable[object]:
    if isinstance(container, dict):
        return cast("dict[object, object]", container).values()
    return cast("Iterable[object]", container)


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 at byte {error.start}"
    if isinstance(error, UnicodeEncodeError):
        return "contains a lone surrogate, which UTF-8 cannot encode"
    if isinstance(error, RecursionError):
        return _TOO_DEEP
    return f"not JSON: {error}"


JSON_TYPES: dict[type, str] = {
    type(None): "null",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
}
_REQUIRED: dict[str, type] = {"class": str, "args": list}


def json_type(value: object) -> str:
    """Name the JSON type of a value, for messages."""
    return JSON_TYPES.get(type(value), type(value).__name__)


# ------------------------------------------------------------------------- payloads that are stored again


def interrupted(raw: bytes) -> bytes:
    """Return the payload with its ``interrupted_count`` raised by one.

    Bytes that are not a job, or have another type under that key, are returned unchanged. The changed bytes also
    protect the new copy from a late settlement of the old run (rule 5).
    """
    return _counted(raw, "interrupted_count")


def rescheduled(raw: bytes, counter: RescheduleCounter | None = "rescheduled_count") -> bytes:
    """Return the payload with the counter of its reschedules raised by one, if it has one; see `interrupted`."""
    return raw if counter is None else _counted(raw, counter)


def continued(raw: bytes, now_seconds: float, wire_version: int) -> bytes:
    """Return the payload as enqueued now, as Sidekiq does after an interrupted iteration; see `interrupted`."""
    payload = decode_or_none(raw)
    if payload is None:
        return raw
    payload["enqueued_at"] = stamp(now_seconds, wire_version)
    return encode(payload)


def _counted(raw: bytes, key: Literal["interrupted_count", "rescheduled_count", "overrated"]) -> bytes:
    payload = decode_or_none(raw)
    count: object = None if payload is None else payload.get(key, 0)
    if payload is None or type(count) is not int:  # another program's key of this name
        return raw
    payload[key] = count + 1
    return encode(payload)


def is_stranded(raw: bytes) -> bool:
    """Whether the bytes might be a stranded job; decode them to be sure."""
    return raw.find(_STRANDED) >= 0  # `in` takes longer


def not_stranded(raw: bytes) -> bytes:
    """Return the payload of a job that ran, without its stranded mark."""
    if not is_stranded(raw):
        return raw
    payload = decode(raw)
    forget_stranded(payload)
    return encode(payload)


def forget_stranded(payload: JobPayload) -> None:
    """Remove the stranded mark from a decoded payload."""
    cast("dict[str, object]", payload).pop("stranded_at", None)
