"""Strict arguments: what may be given to a job, found out before it is stored.

JSON has six types. Whatever else json.dumps would accept silently (a tuple, an enum, an integer key)
comes back as something different in the worker, so it is refused where it can still be understood.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import math
import uuid
from dataclasses import dataclass
from typing import cast

from offsider.core.payload import MAX_NESTING

_PLAIN = frozenset({int, bool, type(None)})


@dataclass(frozen=True)
class Unsafe:
    """The first value that JSON would not carry unchanged: where it is, what it is, and why not."""

    path: tuple[str | int, ...]
    value: object
    reason: str


def check_json(value: object) -> Unsafe | None:
    """The first part of ``value`` that does not survive JSON unchanged, or None when all of it does.

    Only the exact types str, int, float, bool, None, list and dict (with str keys) pass; subclasses do
    not, because they come back as the plain type. Integers of any size pass and are exact.
    """
    kind = type(value)
    if kind in _PLAIN:  # most arguments, without building anything
        return None
    return _check(value, (), set())


def explain(job_name: str, parameter_name: str, unsafe: Unsafe) -> str:
    """A message for people: the job, the argument, what it holds, and the way out."""
    place = f" at {_render(unsafe.path)}" if unsafe.path else ""
    return (
        f"{job_name}: the argument {parameter_name!r}{place} {unsafe.reason}. "
        f"Job arguments travel as JSON: {_way_out(unsafe.value)}. "
        '(strict_args = "warn" or "off" in [client] turns this check down.)'
    )


def _check(value: object, path: tuple[str | int, ...], above: set[int]) -> Unsafe | None:
    kind = type(value)
    if kind in _PLAIN:
        return None
    if kind is str:
        return _check_text(cast(str, value), path)
    if kind is float:
        return (
            None
            if math.isfinite(cast(float, value))
            else Unsafe(path, value, f"is {value}, which JSON has no form for")
        )
    if kind is list:
        return _check_list(cast("list[object]", value), path, above)
    if kind is dict:
        return _check_dict(cast("dict[object, object]", value), path, above)
    return Unsafe(path, value, f"is a {_type_name(value)}")


def _check_text(value: str, path: tuple[str | int, ...]) -> Unsafe | None:
    if value.isascii():
        return None
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return Unsafe(path, value, "holds a lone surrogate, which UTF-8 cannot carry")
    return None


def _check_list(value: list[object], path: tuple[str | int, ...], above: set[int]) -> Unsafe | None:
    unsafe = _enter(value, path, above)
    if unsafe:
        return unsafe
    for index, item in enumerate(value):
        if type(item) in _PLAIN:
            continue
        unsafe = _check(item, (*path, index), above)
        if unsafe:
            return unsafe
    above.discard(id(value))
    return None


def _check_dict(value: dict[object, object], path: tuple[str | int, ...], above: set[int]) -> Unsafe | None:
    unsafe = _enter(value, path, above)
    if unsafe:
        return unsafe
    for key, item in value.items():
        if type(key) is not str:
            return Unsafe(path, value, f"has the key {key!r}, a {_type_name(key)}; JSON keys are strings")
        unsafe = _check_text(key, path) or _check(item, (*path, key), above)
        if unsafe:
            return unsafe
    above.discard(id(value))
    return None


def _enter(container: object, path: tuple[str | int, ...], above: set[int]) -> Unsafe | None:
    # By identity: equal values may well be nested in each other, only the very same object is a cycle.
    if id(container) in above:
        return Unsafe(path, container, "contains itself")
    if len(path) >= MAX_NESTING:
        return Unsafe(path[:3], container, f"is nested deeper than {MAX_NESTING} levels")
    above.add(id(container))
    return None


def _type_name(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _render(path: tuple[str | int, ...]) -> str:
    return "".join(f"[{step!r}]" for step in path)


# The first match counts, so the narrow types stand before the wide ones.
_WAYS_OUT: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (enum.Enum, "pass its .value"),
    (datetime.timedelta, "pass .total_seconds()"),
    ((datetime.datetime, datetime.date, datetime.time), "pass .isoformat() and parse it in the job"),
    ((decimal.Decimal, uuid.UUID), "pass str(value) and convert it in the job"),
    ((bytes, bytearray, memoryview), "pass base64 text, or store the bytes elsewhere and pass their name"),
    (tuple, "pass list(value)"),
    ((set, frozenset), "pass sorted(value)"),
    (bool, "pass a plain bool"),
    (float, "pass a finite, plain float, or None"),
    (int, "pass int(value)"),
    (str, "pass a plain, valid str"),
    (list, "pass a plain list of JSON values"),
    (dict, "pass a plain dict with string keys and JSON values"),
)


def _way_out(value: object) -> str:
    for kinds, advice in _WAYS_OUT:
        if isinstance(value, kinds):
            return advice
    return "pass an id or a dict of plain values, and load the object in the job"
