"""Optional keys of a payload: the types written by this package, and the meaning of other types in foreign payloads.

Ruby's client accepts almost anything: ``retry: "5"``, an integer ``log_level``, a custom key with the name of one of
our keys. Such a job runs. A value with a meaning in Ruby's worker has that meaning here; an unusable value is ignored,
and the worker logs a warning. The stored payload does not change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from offsider.core.options import LOG_LEVELS
from offsider.core.payload import JSON_TYPES, JobPayload, json_type, no_job

_RUBY_INTEGER = re.compile(r"\s*([+-]?[0-9](?:_?[0-9]){0,17})")
_RUBY_LEVELS = ("debug", "info", "warn", "error", "fatal")


def _set(_value: object) -> bool:
    """Any value except false and null is true in Ruby."""
    return True


def _to_i(value: object) -> int | None:
    """Ruby's ``to_i``, for types that have it."""
    if isinstance(value, float):
        return int(value)
    if isinstance(value, str):
        digits = _RUBY_INTEGER.match(value)
        return int(digits[1]) if digits else 0
    return None


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, float) else None


def _to_s(value: object) -> str | None:
    """Ruby's ``to_s``, for numbers."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _level(value: object) -> str | None:
    """The level of an integer severity of Ruby's Logger."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return _RUBY_LEVELS[min(max(value, 0), len(_RUBY_LEVELS) - 1)]


class _Key(NamedTuple):
    """An optional key of a payload.

    Attributes:
        types: the types that this package writes, compared exactly, so that a bool is never an int here.
        meaning: converts a value of another type as Ruby does; None: the value is unusable, or Ruby has no such key.
        is_checked: whether a push is refused if the value has another type; else it may contain any.
    """

    types: frozenset[Any]
    meaning: Callable[[object], Any] = lambda _value: None
    is_checked: bool = True


_NONE = type(None)
_TEXT = frozenset({str})
_OPTIONAL_TEXT = frozenset({str, _NONE})
_WHOLE = frozenset({int})
_SWITCH_OR_WHOLE = frozenset({bool, int, _NONE})
_SECONDS = frozenset({int, float, _NONE})

# Options may be null: Ruby writes an option that is nil, and reads null as absent.
_KEYS: dict[str, _Key] = {
    "kwargs": _Key(frozenset({dict})),
    "jid": _Key(_TEXT, _to_s),
    "queue": _Key(_TEXT, _to_s),
    "retry": _Key(_SWITCH_OR_WHOLE, _set),  # neither a number nor false: the default retry count
    "retry_for": _Key(_SECONDS),
    "retry_queue": _Key(_OPTIONAL_TEXT, _to_s),
    "retry_count": _Key(_WHOLE, _whole),
    "dead": _Key(frozenset({bool, _NONE}), _set),
    "backtrace": _Key(_SWITCH_OR_WHOLE, _to_i),
    "tags": _Key(frozenset({list, _NONE})),
    "log_level": _Key(_OPTIONAL_TEXT, _level),
    "expires_in": _Key(_SECONDS),
    "soft_timeout": _Key(_SECONDS),
    "hard_timeout": _Key(_SECONDS),
    "interrupted_count": _Key(_WHOLE),
    "signature": _Key(_OPTIONAL_TEXT, is_checked=False),
    "rescheduled_count": _Key(_WHOLE, is_checked=False),
    "overrated": _Key(_WHOLE, is_checked=False),
    "expiry": _Key(_SECONDS, is_checked=False),
}
_TYPES = {key: known.types for key, known in _KEYS.items()}  # each job reads it
_NOT_EMPTY = ("jid", "queue")
_LEVELS = frozenset((*LOG_LEVELS, "unknown"))  # the last is the highest of Ruby's Logger


def wrong_shape(payload: Mapping[str, object]) -> str:
    """Describe the first wrong type in a job to be pushed; empty if all types are right."""
    wrong = no_job(payload)
    if wrong:
        return wrong
    for key, value in payload.items():
        known = _KEYS.get(key)
        if known is None or not known.is_checked:
            continue
        if type(value) not in known.types:
            expected = " or ".join(name for kind, name in JSON_TYPES.items() if kind in known.types)
            return f"{key!r} is {json_type(value)}, expected {expected}"
        if not value and key in _NOT_EMPTY:
            return f"{key!r} is empty"
    return ""


def normalize(payload: JobPayload) -> JobPayload:
    """Return the payload with optional values of the types in `JobPayload`; for readers, never to be stored.

    Returns the same object if all types are right, the usual case.
    """
    odd: list[str] = []
    for key, value in payload.items():  # each job runs this: a comprehension or a cast would cost a call
        if key in _TYPES and type(value) not in _TYPES[key]:
            odd.append(key)
    level = payload.get("log_level")
    if type(level) is str and level.lower() not in _LEVELS:
        odd.append("log_level")
    if not odd:
        return payload
    values = cast("dict[str, object]", payload)
    known = {**values, **{key: _KEYS[key].meaning(values[key]) for key in odd}}
    return cast(JobPayload, {key: value for key, value in known.items() if value is not None or key not in odd})


def ignored(payload: JobPayload, normalized: JobPayload) -> list[str]:
    """The keys that `normalize` removed, except those with null or false, which Ruby treats as absent."""
    return [key for key, value in payload.items() if key not in normalized and value is not None and value is not False]
