"""Values serialized by Rails' ``ActiveJob::Arguments``, the format of current attributes in Sidekiq 8.

=========================================  ==============================================
Ruby                                       Python
=========================================  ==============================================
nil, true, false, numbers, strings         the same
Symbol                                     str
Time, DateTime, ActiveSupport's with zone  aware datetime, to the microsecond
Date, Duration, BigDecimal                 date, timedelta, Decimal
Array, Hash                                list, dict with string keys
=========================================  ==============================================

Records, classes, ranges, objects with a custom serializer and invalid values stay in their serialized form, a dict.
`read` reports the serializers of all of these except records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, cast
from zoneinfo import ZoneInfo

from offsider.core.payload import json_type

_SERIALIZER = "_aj_serialized"
_RECORD = "_aj_globalid"
_SYMBOL_KEYS = "_aj_symbol_keys"
#: Metadata about the key types of a Ruby hash; a dict has no use for it.
_KEY_KINDS = frozenset({_SYMBOL_KEYS, "_aj_ruby2_keywords", "_aj_hash_with_indifferent_access"})
_RESERVED = frozenset({_SERIALIZER, _RECORD, *_KEY_KINDS})
_NAME = "ActiveJob::Serializers::{}Serializer"


def read(stored: object) -> tuple[object, list[str]]:
    """Deserialize a value; returns it and the serializers of those parts that stay serialized."""
    unread: list[str] = []
    return _read(stored, unread), unread


def write(value: object) -> object:
    """Serialize a value so that Ruby reads the same value.

    Raises:
        TypeError: ActiveJob cannot serialize the type. The message names only the type.
    """
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return _write_hash(cast("Mapping[object, object]", value))
    if isinstance(value, list | tuple):
        return [write(item) for item in cast("Sequence[object]", value)]
    for kind, writer in _WRITERS:
        if isinstance(value, kind):
            return writer(value)
    raise TypeError(f"{type(value).__qualname__}, for which ActiveJob has no form")


def symbol(name: str) -> dict[str, object]:
    """Serialize a Symbol."""
    return _object("Symbol", name)


def read_pairs(stored: object) -> tuple[dict[str, object], int]:
    """Read an object, or a list of [name, value] pairs, into a dict; the values stay serialized.

    Returns:
        The dict, and the number of items that are not such a pair.

    Raises:
        ValueError: it is neither. The message names only the type.
    """
    if isinstance(stored, dict):
        return cast("dict[str, object]", stored), 0
    if not isinstance(stored, list):
        raise ValueError(type(stored).__name__)  # noqa: TRY004  # invalid data, not an invalid argument
    pairs = [_read_pair(pair) for pair in cast("list[object]", stored)]
    return dict(pair for pair in pairs if pair is not None), pairs.count(None)


def _read_pair(pair: object) -> tuple[str, object] | None:
    items = cast("list[object]", pair) if isinstance(pair, list) else []
    name = read(items[0])[0] if len(items) == 2 else None
    return (name, items[1]) if isinstance(name, str) else None


def _is_reference(fields: Mapping[Any, Any]) -> bool:
    return _SERIALIZER in fields or (_RECORD in fields and len(fields) == 1)


# ------------------------------------------------------------------------------------------- reading


def _read(stored: object, unread: list[str]) -> object:
    if isinstance(stored, list):
        return [_read(item, unread) for item in cast("list[object]", stored)]
    if not isinstance(stored, dict):
        return stored
    fields = cast("dict[str, Any]", stored)
    if not _is_reference(fields):
        return {key: _read(value, unread) for key, value in fields.items() if key not in _KEY_KINDS}
    if _SERIALIZER not in fields:
        return fields
    kind = fields[_SERIALIZER]
    name = kind if isinstance(kind, str) else f"a serializer whose name is {json_type(kind)}"
    try:
        return _READERS[name](fields)
    except (KeyError, TypeError, ValueError, ArithmeticError):
        unread.append(name)
        return fields


def _read_symbol(fields: dict[str, Any]) -> str:
    return _text(fields["value"])


def _read_time(fields: dict[str, Any]) -> datetime:
    moment = datetime.fromisoformat(_text(fields["value"]))
    if moment.tzinfo is None:
        raise ValueError("a time without an offset")
    return moment


def _read_zoned(fields: dict[str, Any]) -> datetime:
    moment = _read_time(fields)
    try:
        return moment.astimezone(ZoneInfo(_text(fields["time_zone"])))
    except (KeyError, TypeError, ValueError, OSError):
        return moment  # unknown time zone: the same moment with its offset


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a string")
    return value


_READERS: Mapping[str, Callable[[dict[str, Any]], object]] = {
    _NAME.format("Symbol"): _read_symbol,
    _NAME.format("Time"): _read_time,
    _NAME.format("DateTime"): _read_time,
    _NAME.format("TimeWithZone"): _read_zoned,
    _NAME.format("Date"): lambda fields: date.fromisoformat(fields["value"]),
    _NAME.format("Duration"): lambda fields: timedelta(seconds=fields["value"]),
    _NAME.format("BigDecimal"): lambda fields: Decimal(_text(fields["value"])),
}


# ------------------------------------------------------------------------------------------- writing


def _object(kind: str, value: object, **more: object) -> dict[str, object]:
    return {_SERIALIZER: _NAME.format(kind), "value": value, **more}


def _write_hash(fields: Mapping[object, object]) -> dict[object, object]:
    if _is_reference(fields):
        return dict(fields)
    if any(not isinstance(key, str) or key in _RESERVED for key in fields):
        raise TypeError("dict with a key that is not a string, or is reserved by ActiveJob")
    return {**{key: write(value) for key, value in fields.items()}, _SYMBOL_KEYS: []}


def _write_time(moment: datetime) -> dict[str, object]:
    offset = moment.utcoffset()
    if offset is None:
        raise TypeError("datetime without a time zone")
    if offset % timedelta(minutes=1):  # Ruby parses only offsets of whole minutes
        moment = moment.astimezone(UTC)
    text = moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
    nanoseconds = f"{text[:26]}000{text[26:]}"
    if isinstance(moment.tzinfo, ZoneInfo) and moment.tzinfo.key:
        return _object("TimeWithZone", nanoseconds, time_zone=moment.tzinfo.key)
    return _object("Time", nanoseconds)


def _write_duration(duration: timedelta) -> dict[str, object]:
    exact = duration.total_seconds()
    seconds = int(exact) if exact.is_integer() else exact
    return _object("Duration", seconds, parts=[[symbol("seconds"), seconds]])


# The first match wins: a datetime is also a date.
_WRITERS: tuple[tuple[type, Callable[[Any], object]], ...] = (
    (datetime, _write_time),
    (date, lambda day: _object("Date", day.isoformat())),
    (timedelta, _write_duration),
    (Decimal, lambda number: _object("BigDecimal", format(number, "f"))),
)
