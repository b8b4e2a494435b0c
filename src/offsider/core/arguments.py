"""Strict arguments: checks the arguments of a job before it is stored.

JSON has six types. json.dumps silently converts other values (a tuple, an enum, an integer key), so that the worker
would receive something else. They are rejected at the push, where the error is easy to understand.
"""

from __future__ import annotations

import datetime as dt
import enum
import json
import math
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, is_dataclass, replace
from itertools import chain
from typing import Any, TypeAlias, cast

from offsider.core.job_id import JobId
from offsider.core.payload import MAX_NESTING, encode_text

# The id of a job is stored as a plain string; its type says where it was pushed.
_PLAIN = frozenset({int, bool, type(None), JobId})
_TEXTS = frozenset({str, JobId})
SCALARS = _PLAIN | {str, float}
_Container: TypeAlias = "list[object] | dict[str, object]"
# The payload and the list of arguments are levels too.
MAX_ARGUMENT_NESTING = MAX_NESTING - 2
TOO_DEEP = "is nested deeper than"
_SHOWN_STEPS = 10


@dataclass(frozen=True)
class Unsafe:
    """The first value that JSON would change: its path, the value, and the reason."""

    path: tuple[str | int, ...]
    value: object
    reason: str


def are_plain(values: Iterable[object]) -> bool:
    """Whether all values are of plain types, so that `check_json` is not needed."""
    for value in values:  # noqa: SIM110  # all() takes twice as long
        if type(value) not in _PLAIN and not (type(value) is str and value.isascii()):
            return False
    return True


def encode_scalars(calls: Sequence[list[Any]]) -> list[str] | None:
    """Return the arguments of each call as JSON without the brackets; None if one is not a scalar, or not JSON.

    All calls are encoded at once, in half the time of single ones, and their text is split.
    """
    if not set(map(type, chain.from_iterable(calls))) <= SCALARS:
        return None
    try:
        text = encode_text(calls)
    except ValueError:  # NaN, infinity, or an integer of more than 4,300 digits
        return None
    texts = text[2:-2].split("],[")
    return texts if len(texts) == len(calls) else None  # otherwise a string contains the separator


def check_json(value: object) -> Unsafe | None:
    """Return the first part of ``value`` that JSON would change, or None.

    Only the exact types str, int, float, bool, None, list and dict (with str keys) pass. Subclasses do not, because
    JSON turns them into the plain type. Integers of any size pass and are exact.
    """
    kind = type(value)
    if kind in _PLAIN:  # most arguments, without building anything
        return None
    if kind is list or kind is dict:
        try:
            return _search(cast("_Container", value), set())
        except RecursionError:
            return Unsafe((), value, f"{TOO_DEEP} the call stack allows here")
    reason = _why_not(value)
    return Unsafe((), value, reason) if reason else None


class StepResult(str):
    """Stands in the arguments of a job for the result of another one; only workflows accept it."""

    __slots__ = ()


def encode_result(result: object, most_bytes: int, limit: str) -> bytes:
    """Return what a job returned as JSON.

    Raises:
        ValueError: it is not JSON, or larger than ``most_bytes``, named ``limit``. The message contains no value.
    """
    try:
        raw = encode_text(result).encode("utf-8")
    except TypeError as error:
        raise ValueError(f"it is not JSON: {error}") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply for JSON, or contains itself") from error
    odd = odd_keys(result)
    if odd:
        raise ValueError(f"it has a key of type {type(odd[0]).__name__}; JSON keys are strings")
    if len(raw) > most_bytes:
        raise ValueError(f"it has {len(raw):,} bytes, over {limit} ({most_bytes:,})")
    return raw


def colliding_key(value: object) -> str | None:
    """Find a key that a dict inside ``value`` would contain twice in JSON: ``{1: …, "1": …}``; None if there is none.

    ``value`` is encodable, so it contains no cycle.
    """
    for pairs in _dicts(value):
        if not all(type(key) is str for key in pairs):
            seen = Counter(next(iter(json.loads(encode_text({key: None})))) for key in pairs)
            key, times = seen.most_common(1)[0]
            if times > 1:
                return cast(str, key)
    return None


def odd_keys(value: object) -> list[object]:
    """Return the keys that are not strings, of every dict in ``value``, which must not contain cycles."""
    return [key for pairs in _dicts(value) for key in pairs if not isinstance(key, str)]


def _dicts(value: object) -> Iterator[dict[object, object]]:
    """Yield every dict in ``value``, which must not contain cycles."""
    containers = [value]
    for container in containers:
        if isinstance(container, dict):
            pairs = cast("dict[object, object]", container)
            yield pairs
            containers += pairs.values()
        elif isinstance(container, list | tuple):
            containers += cast("list[object]", container)


def explain(job_name: str, parameter_name: str, unsafe: Unsafe) -> str:
    """Format the error message: the job, the argument, the reason and a fix."""
    place = f" at {_render(unsafe.path)}" if unsafe.path else ""
    # Ruby rejects deeper nesting, whatever strict_args is.
    hint = (
        ""
        if unsafe.reason.startswith(TOO_DEEP)
        else (' (For values that JSON can encode, strict_args in [client] may be "warn" or "off".)')
    )
    return (
        f"{job_name}: the argument {parameter_name!r}{place} {unsafe.reason}. "
        f"Job arguments are stored as JSON: {_way_out(unsafe.value)}.{hint}"
    )


def _search(container: _Container, above: set[int]) -> Unsafe | None:
    """Search depth first; ``above`` identifies the containers around this one."""
    reason = _cannot_enter(container, above) or _bad_key(container)
    if reason:
        return Unsafe((), container, reason)
    above.add(id(container))
    for step, item in _items(container):
        kind = type(item)
        if kind in _PLAIN:
            continue
        if kind is list or kind is dict:
            found = _search(cast("_Container", item), above)
            if found is not None:
                return replace(found, path=(step, *found.path))
        elif reason := _why_not(item):
            return Unsafe((step,), item, reason)
    above.discard(id(container))
    return None


def _items(container: _Container) -> Iterator[tuple[str | int, object]]:
    return iter(container.items()) if isinstance(container, dict) else iter(enumerate(container))


def _cannot_enter(container: _Container, above: set[int]) -> str:
    # By identity: equal values may be nested in each other, only the same object is a cycle.
    if id(container) in above:
        return "contains itself"
    return f"{TOO_DEEP} {MAX_ARGUMENT_NESTING} levels" if len(above) >= MAX_ARGUMENT_NESTING else ""


def _bad_key(container: _Container) -> str:
    if isinstance(container, dict):
        for key in cast("dict[object, object]", container):
            if type(key) not in _TEXTS:
                return f"has a key of type {_type_name(key)}; JSON keys are strings"
            if not cast("str", key).isascii() and (reason := _why_not(str(key))):
                return f"has a key that {reason}"
    return ""


def _why_not(leaf: object) -> str:
    """Return why a value that is not a container cannot be encoded; empty if it can."""
    kind = type(leaf)
    if kind is str:
        return "" if is_unicode(cast(str, leaf)) else "contains a lone surrogate, which UTF-8 cannot encode"
    if kind is float:
        return "" if math.isfinite(cast(float, leaf)) else f"is {leaf}, which JSON cannot encode"
    name = _type_name(leaf)
    return f"is {'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can encode the text: it has no lone surrogates."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _type_name(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _render(path: tuple[str | int, ...]) -> str:
    steps = "".join(f"[{step!r}]" for step in path[:_SHOWN_STEPS])
    return f"{steps}..." if len(path) > _SHOWN_STEPS else steps


# The first match counts, so subclasses precede their base classes.
_WAYS_OUT: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (enum.Enum, "pass its .value"),
    (dt.timedelta, "pass .total_seconds()"),
    ((dt.datetime, dt.date, dt.time), "pass .isoformat() and parse it in the job"),
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


_CODEC = 'or annotate the parameter and declare the job with codec="annotations"'


def _way_out(value: object) -> str:
    import decimal  # 2 ms of each boot, for an error message

    if isinstance(value, decimal.Decimal | uuid.UUID):
        return "pass str(value) and convert it in the job"
    for kinds, advice in _WAYS_OUT:
        if isinstance(value, kinds):
            return advice
    if is_dataclass(value) and not isinstance(value, type):
        return f"pass dataclasses.asdict(value), and build the object in the job; {_CODEC}"
    if hasattr(type(value), "model_dump"):
        return f'pass value.model_dump(mode="json"), and validate it in the job; {_CODEC}'
    return "pass an id or a dict of plain values, and load the object in the job"
