"""A job's stored form: its keys, its bytes, and the strict reading of bytes that somebody else wrote."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, Required, TypedDict, cast

from offsider.core.errors import MalformedPayload

# Ruby's JSON stops at 100 levels, CPython's somewhere near its recursion limit, which differs by version
# and by the depth of the caller. A number of our own makes the answer the same everywhere.
MAX_NESTING = 500

JobPayload = TypedDict(
    "JobPayload",
    {
        "class": Required[str],
        "args": Required[list[Any]],
        "kwargs": dict[str, Any],
        "jid": str,
        "queue": str,
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
        "soft_timeout": int | float | None,
        "hard_timeout": int | float | None,
        "profile": str,
        "profiler_options": dict[str, Any],
        "bid": str,
        "wrapped": str,
        "display_class": str,
        "cattr": dict[str, Any],
        "interrupted_count": int,
        "signature": str,
        "app_version": str,
        "parked_count": int,
        "parked_at": int | float,
        "retry_count": int,
        "failed_at": int | float,
        "retried_at": int | float,
        "discarded_at": int | float,
        "error_class": str,
        "error_message": str,
        "error_backtrace": str,
    },
    total=False,
)
"""Sidekiq's payload keys, and some of ours: ``kwargs`` (keyword-only arguments), ``interrupted_count`` and the limits
``soft_timeout`` and ``hard_timeout`` (seconds), ``signature`` and ``app_version`` (which parameters the arguments were
made for, and by whom), ``parked_count`` and ``parked_at`` (how often a worker has put the job off because it cannot
run it, and since when).

Other keys are allowed and survive every round trip. The ``*_at`` stamps are integer milliseconds
(Sidekiq 8) or float seconds (6, 7): read them with `read_stamp`.
"""


def new_jid() -> str:
    """A fresh job id: 24 hex digits. Drawn one by one: pools repeat after a fork or in a cloned VM."""
    return secrets.token_hex(12)


def new_jids(count: int) -> list[str]:
    """As many fresh job ids, drawn at once for jobs that are stored at once; none is kept for later."""
    digits = secrets.token_hex(12 * count)
    return [digits[start : start + 24] for start in range(0, len(digits), 24)]


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))


def _text_encoder() -> Callable[[Any], str]:
    """`_ENCODER.encode` without its making an encoder in C for each call, which takes as long as a payload."""
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # a Python without that part in C
        return _ENCODER.encode
    quote = json.encoder.encode_basestring  # pyright: ignore[reportAttributeAccessIssue]
    # No markers to find cycles by: threads share the encoder, and a cycle ends in RecursionError as well.
    chunks = make(None, _ENCODER.default, quote, None, ":", ",", False, False, False)
    return lambda value: "".join(chunks(value, 0))


encode_text = _text_encoder()
"""A part of a payload as JSON text. Raises whatever ``json`` raises; `encode` makes one ValueError of it."""


def encode(payload: Mapping[str, Any]) -> bytes:
    """The payload's bytes, in the form Sidekiq writes: compact, raw UTF-8, keys in their order.

    Raises ValueError for whatever is not JSON (UnicodeEncodeError, for a lone surrogate, is one).
    """
    try:
        return encode_text(payload).encode("utf-8")
    except TypeError as error:
        raise ValueError(str(error)) from error
    except RecursionError as error:
        raise ValueError("nested too deeply for JSON") from error


def decode(raw: bytes) -> JobPayload:
    """Read stored bytes as a job; keys that we do not know are kept.

    Raises MalformedPayload when they are not one JSON object that can be written again, or when a key
    that the worker relies on has the wrong type. A missing ``jid`` or ``queue`` is allowed.
    """
    try:
        payload: object = _read(raw.decode("utf-8"))
        _check_rewritable(raw, payload)
    except (ValueError, RecursionError) as error:
        raise MalformedPayload(raw, _reason(error)) from error
    if not isinstance(payload, dict):
        raise MalformedPayload(raw, f"expected an object, got {type(payload).__name__}")
    wrong = wrong_shape(cast("dict[str, object]", payload))
    if wrong:
        raise MalformedPayload(raw, wrong)
    return cast(JobPayload, payload)


def stamp(now_seconds: float, wire_version: int) -> int | float:
    """A point in time as the payload holds it: integer milliseconds for Sidekiq 8, float seconds for 6 and 7."""
    return int(now_seconds * 1000) if wire_version >= 8 else float(now_seconds)


def read_stamp(value: object) -> float | None:
    """Epoch seconds from a payload stamp of any version: an int is milliseconds, a float is seconds."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return value
    if isinstance(value, int):
        try:
            return value / 1000
        except OverflowError:  # a number no clock has shown
            return None
    return None


def _refuse_constant(literal: str) -> NoReturn:
    raise ValueError(f"{literal} is not JSON")


def _finite(literal: str) -> float:
    number = float(literal)
    if not math.isfinite(number):
        # It would load as infinity, which cannot be written again when the job fails.
        raise ValueError(f"the number {literal[:40]} is out of range")
    return number


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)

#: What `decode` calls when it has looked for blanks; not in the stubs.
_scan: Callable[[str, int], tuple[object, int]] = cast("Any", _DECODER).scan_once


def _read(text: str) -> object:
    # Compact bytes, as everybody writes them, need no search for blanks before and after.
    try:
        value, end = _scan(text, 0)
    except StopIteration:  # no JSON begins here
        return _DECODER.decode(text)
    return value if end == len(text) else _DECODER.decode(text)


def _check_rewritable(raw: bytes, payload: object) -> None:
    """What loads must also dump, else a job that fails could not be stored again."""
    if b"\\u" in raw and (b"\\ud" in raw or b"\\uD" in raw):  # only an escape can smuggle a lone surrogate past UTF-8
        encode({"": payload})
    check_nesting(raw, payload)


_CONTAINERS = (list, dict, tuple)  # JSON makes an array of a tuple


def check_nesting(raw: bytes, payload: object) -> None:
    """ValueError when ``payload``, encoded as ``raw``, is nested too deeply to be read by `decode`."""
    if len(raw) > MAX_NESTING and raw.count(b"[") + raw.count(b"{") > MAX_NESTING and _depth(payload) > MAX_NESTING:
        raise ValueError(f"nested deeper than {MAX_NESTING} levels")


def _depth(value: object) -> int:
    """How many containers stand in each other, counted without recursion."""
    depth = 0
    level: list[object] = [value] if isinstance(value, _CONTAINERS) else []
    while level:
        depth += 1
        below: list[object] = []
        for container in level:
            items = cast("dict[str, object]", container).values() if isinstance(container, dict) else container
            below += [item for item in cast("Iterable[object]", items) if isinstance(item, _CONTAINERS)]
        level = below
    return depth


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 at byte {error.start}"
    if isinstance(error, UnicodeEncodeError):
        return "holds a lone surrogate, which UTF-8 cannot carry"
    if isinstance(error, RecursionError):
        return f"nested deeper than {MAX_NESTING} levels"
    return f"not JSON: {error}"


_Types = frozenset[type]
_NONE = type(None)
_TEXT: _Types = frozenset({str})
_OPTIONAL_TEXT: _Types = frozenset({str, _NONE})
_WHOLE: _Types = frozenset({int})
_SWITCH: _Types = frozenset({bool, _NONE})
_SWITCH_OR_WHOLE: _Types = frozenset({bool, int, _NONE})
_SECONDS: _Types = frozenset({int, float, _NONE})
_LIST: _Types = frozenset({list})
_OBJECT: _Types = frozenset({dict})

# Options may be null, because Ruby writes an option that was set to nil and reads it as absent.
# JSON gives exact types, so a bool is never taken for an int here.
_SHAPE: dict[str, _Types] = {
    "class": _TEXT,
    "args": _LIST,
    "kwargs": _OBJECT,
    "jid": _TEXT,
    "queue": _TEXT,
    "retry": _SWITCH_OR_WHOLE,
    "retry_for": _SECONDS,
    "retry_queue": _OPTIONAL_TEXT,
    "retry_count": _WHOLE,
    "dead": _SWITCH,
    "backtrace": _SWITCH_OR_WHOLE,
    "tags": frozenset({list, _NONE}),
    "log_level": _OPTIONAL_TEXT,
    "soft_timeout": _SECONDS,
    "hard_timeout": _SECONDS,
    "interrupted_count": _WHOLE,
}
_NOT_EMPTY = frozenset({"class", "jid", "queue"})
_REQUIRED = ("class", "args")


def wrong_shape(payload: Mapping[str, object]) -> str:
    """What is wrong with the types of the keys that offsider reads; empty when nothing is."""
    for key in _REQUIRED:
        if key not in payload:
            return f"has no {key!r}"
    for key, value in payload.items():
        expected = _SHAPE.get(key)
        if expected is None:
            continue
        if type(value) not in expected:
            return f"{key!r} is {_json_type(value)}, expected {_names(expected)}"
        if not value and key in _NOT_EMPTY:
            return f"{key!r} is empty"
    return ""


_JSON_TYPES: dict[type, str] = {
    _NONE: "null",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
}


def _json_type(value: object) -> str:
    return _JSON_TYPES.get(type(value), type(value).__name__)


def _names(types: _Types) -> str:
    return " or ".join(name for kind, name in _JSON_TYPES.items() if kind in types)
