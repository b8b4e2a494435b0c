"""Values of another type are read like Ruby's worker reads them; meaningless ones are omitted and named."""

import pytest
from hypothesis import given, strategies as st

from offsider.core.normalize import ignored, normalize, wrong_shape
from offsider.core.payload import decode, encode

JOB = {"class": "HardJob", "args": [1]}
ABSENT = object()


@pytest.mark.parametrize(
    "key, value, meant",
    [
        ("retry", "5", True),
        ("backtrace", " 12 lines", 12),
        ("backtrace", "1_000", 1000),
        ("backtrace", "all", 0),
        ("backtrace", 2.9, 2),
        ("dead", "false", True),
        ("dead", 0, True),
        ("jid", 7, "7"),
        ("jid", 7.5, "7.5"),
        ("queue", 7, "7"),
        ("queue", None, ABSENT),
        ("jid", None, ABSENT),
        ("retry_queue", 5, "5"),
        ("retry_queue", False, ABSENT),
        ("retry_for", False, ABSENT),
        ("retry_count", 2.0, 2),
        ("retry_count", None, ABSENT),
        ("log_level", "WARN", "WARN"),
        ("log_level", "unknown", "unknown"),
        ("log_level", 0, "debug"),
        ("log_level", 4, "fatal"),
        ("log_level", 9, "fatal"),
        ("log_level", -1, "debug"),
        ("kwargs", None, ABSENT),
    ],
)
def test_values_have_the_meaning_that_ruby_gives_them(key, value, meant):
    payload = {**JOB, key: value}
    known = normalize(payload)
    assert known.get(key, ABSENT) == meant
    assert type(known.get(key, ABSENT)) is type(meant)
    assert ignored(payload, known) == []


@pytest.mark.parametrize(
    "key, value",
    [
        *(("kwargs", value) for value in ([1], "x", 0, True)),
        *(("soft_timeout", value) for value in ("30", True, [])),
        *(("hard_timeout", value) for value in ("30", {})),
        *(("interrupted_count", value) for value in ("x", 1.5, True)),
        *(("signature", value) for value in ([1], 7)),
        *(("retry_for", value) for value in ("1h", True, [])),
        *(("retry_count", value) for value in ("2", True)),
        *(("retry_queue", value) for value in (True, ["low"])),
        *(("jid", value) for value in (True, ["a"])),
        *(("queue", value) for value in (True, {})),
        *(("tags", value) for value in ("a", 0, {})),
        *(("log_level", value) for value in (True, 1.5, [], "NOPE", "")),
        *(("backtrace", value) for value in ([], {})),
    ],
)
def test_unusable_values_are_omitted_and_named(key, value):
    payload = {**JOB, key: value}
    known = normalize(payload)
    assert known == JOB
    assert ignored(payload, known) == [key]


def test_a_usual_payload_stays_the_same_object():
    payload = {**JOB, "retry": None, "dead": False, "tags": None, "backtrace": 3, "kwargs": {}, "cattr": [[1, 2]]}
    assert normalize(payload) is payload


ODD = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
ODD = ODD | st.lists(st.integers(), max_size=2) | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
KEYS = "kwargs jid queue retry retry_for retry_queue retry_count dead backtrace tags log_level soft_timeout"
KEYS += " hard_timeout interrupted_count signature"


@given(st.dictionaries(st.sampled_from(KEYS.split()), ODD))
def test_any_payload_is_normalized_and_the_result_can_be_pushed(values):
    payload = decode(encode({**JOB, **values}))
    known = normalize(payload)
    assert normalize(known) is known
    assert wrong_shape(known) in ("", "'jid' is empty", "'queue' is empty")
    assert payload == {**JOB, **values}


@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"args": {}}, "'args' is an object, expected an array"),
        ({"jid": 7}, "'jid' is an integer"),
        ({"queue": ""}, "'queue' is empty"),
        ({"queue": ["a"]}, "'queue' is an array"),
        ({"retry": "3"}, "'retry' is a string"),
        ({"retry_count": True}, "'retry_count' is a boolean, expected an integer"),
        ({"retry_for": "1h"}, "'retry_for' is a string"),
        ({"retry_queue": 1}, "'retry_queue' is an integer"),
        ({"dead": 0}, "'dead' is an integer"),
        ({"backtrace": "all"}, "'backtrace' is a string"),
        ({"kwargs": []}, "'kwargs' is an array"),
        ({"hard_timeout": True}, "'hard_timeout' is a boolean, expected"),
        ({"log_level": 3}, "'log_level' is an integer"),
    ],
)
def test_a_push_of_another_type_is_refused_with_a_reason(fields, reason):
    assert reason in wrong_shape({**JOB, **fields})
