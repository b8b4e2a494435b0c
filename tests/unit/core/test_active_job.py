"""Values in ActiveJob's stored form: each one is read as Ruby meant it, and what we write, Ruby reads.

What Ruby wrote itself is in tests/contract/sidekiq-8.1.7.json, and tests/interop lets Ruby read.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from offsider.core.active_job import read, read_pairs, symbol, write

BERLIN = ZoneInfo("Europe/Berlin")


def stored(kind, value, **more):
    return {"_aj_serialized": f"ActiveJob::Serializers::{kind}Serializer", "value": value, **more}


def value_of(form):
    value, unread = read(form)
    assert unread == []
    return value


def hash_of(**values):
    return {**values, "_aj_symbol_keys": []}


@pytest.mark.parametrize(
    "value,form",
    [
        *((value, value) for value in (None, True, 7, 2**70, 1.5, "é", [], [1, [2]])),
        ({}, hash_of()),
        ({"a": {"b": date(2026, 1, 2)}}, hash_of(a=hash_of(b=stored("Date", "2026-01-02")))),
        (date(2026, 11, 22), stored("Date", "2026-11-22")),
        (datetime(2026, 11, 22, 6, 30, 19, 123456, UTC), stored("Time", "2026-11-22T06:30:19.123456000Z")),
        (
            datetime(2026, 11, 22, 6, 30, tzinfo=timezone(timedelta(hours=5, minutes=30))),
            stored("Time", "2026-11-22T06:30:00.000000000+05:30"),
        ),
        (
            datetime(2026, 7, 1, 12, tzinfo=BERLIN),
            stored("TimeWithZone", "2026-07-01T12:00:00.000000000+02:00", time_zone="Europe/Berlin"),
        ),
        # The local mean time of Berlin is 53 minutes and 28 seconds ahead, which Ruby does not read.
        (datetime(1890, 1, 1, tzinfo=BERLIN), stored("Time", "1889-12-31T23:06:32.000000000Z")),
        (timedelta(minutes=90), stored("Duration", 5400, parts=[[symbol("seconds"), 5400]])),
        (timedelta(seconds=-0.5), stored("Duration", -0.5, parts=[[symbol("seconds"), -0.5]])),
        (Decimal("12.340"), stored("BigDecimal", "12.340")),
        (Decimal("-1.23E-6"), stored("BigDecimal", "-0.00000123")),
    ],
)
def test_a_value_is_written_in_rubys_form_and_read_back(value, form):
    assert write(value) == form
    assert json.loads(json.dumps(form)) == form
    assert read(form) == (value, [])


def test_a_tuple_is_written_as_a_list():
    assert write((1, (2,))) == [1, [2]]


RANGE = "ActiveJob::Serializers::RangeSerializer"


@pytest.mark.parametrize(
    "form, unread",
    [
        ({"_aj_globalid": "gid://shop/User/7"}, []),
        (stored("Module", "User"), ["ActiveJob::Serializers::ModuleSerializer"]),
        ({"_aj_serialized": RANGE, "begin": 1, "end": 5, "exclude_end": True}, [RANGE]),
        ({"_aj_serialized": "MoneySerializer", "cents": 5}, ["MoneySerializer"]),
        ({"_aj_serialized": ["pa55"]}, ["a serializer whose name is an array"]),
        ({"_aj_serialized": None, "value": 1}, ["a serializer whose name is null"]),
    ],
)
def test_values_only_the_application_can_decode_stay_unchanged_and_are_named(form, unread):
    assert read(form) == (form, unread)
    assert read([form, {"a": form}]) == ([form, {"a": form}], unread * 2)
    assert write(form) == form


def test_keys_of_a_hash_are_strings_for_all_ruby_key_types():
    assert value_of({"a": 1, "b": [symbol("c")], "_aj_symbol_keys": ["a"]}) == {"a": 1, "b": ["c"]}
    assert value_of({"a": 1, "_aj_hash_with_indifferent_access": True}) == {"a": 1}
    assert value_of({"a": 1, "_aj_ruby2_keywords": ["a"]}) == {"a": 1}
    assert value_of({"_aj_globalid": "x", "more": 1}) == {"_aj_globalid": "x", "more": 1}


def test_a_time_in_an_unknown_zone_is_the_same_instant():
    for zone in ("Mars/Olympus", "../etc", 7):
        moment = value_of(stored("TimeWithZone", "2026-07-01T12:00:00.5+02:00", time_zone=zone))
        assert moment == datetime(2026, 7, 1, 10, 0, 0, 500000, UTC)
    assert value_of(stored("TimeWithZone", "2026-07-01T10:00:00Z", time_zone="Europe/Berlin")).hour == 12


@pytest.mark.parametrize(
    "kind,value",
    [
        ("Symbol", 7),
        ("Time", "pa55"),
        ("Time", "2026-11-22T06:30:19"),
        ("Time", 7),
        ("DateTime", "99999-01-01T00:00:00Z"),
        ("TimeWithZone", None),
        ("Date", "pa55"),
        ("Date", []),
        ("Duration", "pa55"),
        ("Duration", 1e300),
        ("BigDecimal", "pa55"),
        ("BigDecimal", [1]),
    ],
)
def test_unreadable_values_stay_unchanged_and_are_named_only_by_type(kind, value):
    for form in (stored(kind, value), {"_aj_serialized": f"ActiveJob::Serializers::{kind}Serializer"}):
        nested = [{"bad": form, "good": stored("Symbol", "a")}]
        assert read(nested) == ([{"bad": form, "good": "a"}], [f"ActiveJob::Serializers::{kind}Serializer"])


@pytest.mark.parametrize(
    "value,kind",
    [
        (b"pa55", "bytes, for which"),
        ({"pa55"}, "set, for which"),
        (datetime(2026, 1, 2), "datetime without a time zone"),  # noqa: DTZ001
        ({7: "pa55"}, "dict with a key that is not a string"),
        ({"_aj_globalid": "pa55", "more": 1}, "dict with a key that is not a string, or is reserved by ActiveJob"),
    ],
)
def test_values_without_a_ruby_form_are_named_only_by_type(value, kind):
    with pytest.raises(TypeError, match=kind) as refusal:
        write([value])
    assert "pa55" not in str(refusal.value)


def test_pairs_are_read_by_their_symbols_or_strings():
    assert read_pairs([[symbol("a"), 1], ["b", symbol("c")]]) == ({"a": 1, "b": symbol("c")}, 0)
    assert read_pairs({"a": 1}) == ({"a": 1}, 0)


@pytest.mark.parametrize(
    "bad",
    ["pa55", ["pa55"], ["a", 1, 2], [7, 1], [stored("Date", "2026-01-02"), 1], [stored("Symbol", 7), 1], None],
)
def test_an_item_that_is_not_a_pair_is_omitted(bad):
    assert read_pairs([["a", 1], bad, ["b", 2], bad]) == ({"a": 1, "b": 2}, 2)


@pytest.mark.parametrize("form,kind", [("pa55", "str"), (7, "int")])
def test_a_value_that_is_neither_object_nor_pairs_is_named_only_by_type(form, kind):
    with pytest.raises(ValueError, match=f"^{kind}"):
        read_pairs(form)
