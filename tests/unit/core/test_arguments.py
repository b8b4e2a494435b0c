"""Strict arguments: values that JSON does not preserve are found and explained."""

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import inspect
import json
import sys
import uuid

import pydantic
import pytest
from hypothesis import given, strategies as st

from offsider.core.arguments import Unsafe, are_plain, check_json, colliding_key, explain
from offsider.core.job_id import JobId
from offsider.core.payload import encode_text

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
UNSAFE = st.sampled_from(
    [(1,), {1}, frozenset(), b"x", decimal.Decimal(1), uuid.uuid4(), float("nan"), float("inf"), object(), "\ud800"]
)


@given(JSON)
def test_json_values_pass_and_round_trip(value):
    assert check_json(value) is None
    assert json.loads(json.dumps(value)) == value


@given(st.lists(JSON | UNSAFE))
def test_the_fast_check_accepts_nothing_that_the_full_check_refuses(values):
    if are_plain(values):
        assert [check_json(value) for value in values] == [None] * len(values)


@pytest.mark.parametrize("values", [[], [1, True, None, "a"]])
def test_most_arguments_pass_the_fast_check(values):
    assert are_plain(values)


@given(JSON, UNSAFE, st.lists(st.sampled_from(["list", "dict"]), max_size=6))
def test_an_unsafe_value_is_found_at_any_depth(beside, unsafe, wrappers):
    value = unsafe
    for wrapper in wrappers:
        value = [beside, value] if wrapper == "list" else {"beside": beside, "here": value}
    found = check_json(value)
    assert found is not None
    for step in found.path:
        value = value[step]
    assert value is unsafe
    assert found.value is unsafe


class Colour(enum.StrEnum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int


class Model(pydantic.BaseModel):
    x: int


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "value, advice",
    [
        ((1, 2), "list(value)"),
        ({1}, "sorted(value)"),
        (decimal.Decimal("1.5"), "str(value)"),
        (uuid.uuid4(), "str(value)"),
        (dt.datetime.now(dt.UTC), ".isoformat()"),
        (dt.date(2026, 1, 1), ".isoformat()"),
        (dt.timedelta(1), ".total_seconds()"),
        (b"bytes", "base64"),
        (Colour.RED, ".value"),
        (Text("x"), "plain, valid str"),
        (collections.OrderedDict(a=1), "plain dict"),
        (collections.UserList([1]), "pass an id"),
        (float("nan"), "finite"),
        (float("-inf"), "finite"),
        (object(), "pass an id"),
        (Point(1), "dataclasses.asdict(value)"),
        (Model(x=1), 'value.model_dump(mode="json")'),
        (Point, "pass an id"),
        ({1: "a"}, "string keys"),
        ({None: "a"}, "string keys"),
        ({"\ud800": 1}, "a key that contains a lone surrogate"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_outside_json_are_refused_with_the_next_step(value, advice):
    unsafe = check_json([{"deep": value}])
    assert unsafe is not None
    message = explain("HardJob", "options", unsafe)
    assert "HardJob" in message
    assert "'options'" in message
    assert "[0]['deep']" in message
    assert advice in message


def test_a_cycle_is_reported_but_a_shared_value_is_not():
    shared: list[object] = [1]
    assert check_json([shared, shared, {"a": shared}]) is None
    assert check_json([[], [[]]]) is None  # equal, but not the same
    loop: list[object] = []
    loop.append({"again": loop})
    unsafe = check_json(loop)
    assert unsafe is not None
    assert unsafe.reason == "contains itself"


def test_deep_nesting_is_reported_without_a_recursion_error():
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    unsafe = check_json(deep)
    assert unsafe is not None
    reported = explain("X", "y", unsafe)
    assert "nested deeper" in reported
    assert "strict_args" not in reported  # it makes no difference to Ruby


def nested(levels: int) -> list[object]:
    value: list[object] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_an_argument_may_be_nested_98_deep_below_the_payload_and_its_arguments():
    assert check_json(nested(98)) is None
    unsafe = check_json(nested(99))
    assert unsafe is not None
    assert unsafe.reason == "is nested deeper than 98 levels"


def test_an_argument_too_deep_for_the_rest_of_the_stack_is_reported():
    def call(frames: int) -> Unsafe | None:
        return call(frames - 1) if frames else check_json(nested(90))

    unsafe = call(sys.getrecursionlimit() - len(inspect.stack(0)) - 50)
    assert unsafe is not None
    assert "is nested deeper than the call stack allows" in explain("X", "y", unsafe)


@pytest.mark.parametrize(
    "levels, place",
    [(9, "['in']" * 9 + "['bad'] is an"), (12, "['in']" * 10 + "... is an")],
    ids=["whole", "cut"],
)
def test_a_long_path_is_cut_only_in_the_message(levels, place):
    value: dict[str, object] = {"bad": object()}
    for _ in range(levels):
        value = {"in": value}
    unsafe = check_json(value)
    assert unsafe is not None
    assert unsafe.path == (*["in"] * levels, "bad")
    assert f" at {place} object. " in explain("X", "y", unsafe)


@pytest.mark.parametrize(
    "value, key",
    [
        ({1: 0, "1": 1}, "1"),
        ([{"a": ({None: 0, "null": 1},)}], "null"),
        ({1: 0, "2": 1}, None),
        ([{2: 3}], None),
        (7, None),
    ],
)
def test_keys_that_become_duplicates_in_json_are_found(value, key):
    assert colliding_key(value) == key


def test_the_id_of_a_job_is_a_string_also_as_a_key():
    jid: JobId[object] = JobId("5a1")
    assert check_json([jid, {jid: {jid: jid}}]) is None
    assert encode_text({jid: jid}) == '{"5a1":"5a1"}'
