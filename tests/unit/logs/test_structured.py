"""The fields of structured lines, and lines that stay valid and short for any values."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from offsider.logs.structured import (
    MAX_CHARACTERS,
    about_error,
    about_payload,
    about_raw,
    about_running,
    arguments_of,
    bounded,
    is_about,
    line_fields,
    line_of,
    loggable,
    size_of,
)
from offsider.runtime.context import JobContext, running
from offsider.runtime.propagation import bind_context, context

PAYLOAD = {
    "class": "Hard",
    "args": ["secret", 2],
    "jid": "ab",
    "queue": "low",
    "tags": ["x"],
    "meta.user": "ann",
    "correlation_id": "c1",
}
ABOUT = {"class": "Hard", "jid": "ab", "queue": "low", "tags": ["x"], "correlation_id": "c1", "meta.user": "ann"}


class Nasty:
    def __str__(self):
        raise RuntimeError

    __repr__ = __str__


def refuse(literal):
    raise AssertionError(f"{literal} is not JSON")


def read(line):
    """One line that any JSON reader takes: no NaN, no control characters."""
    assert line.isascii()
    assert line.isprintable()
    return json.loads(line, parse_constant=refuse)


def test_a_running_job():
    job = JobContext(dict(PAYLOAD), "low")
    with running(job):
        bind_context(project="p")
        assert about_running(job) == {**ABOUT, "meta.project": "p"}
    assert about_running(None) == {}


def test_a_stored_job():
    assert about_payload(dict(PAYLOAD)) == ABOUT
    assert about_payload({"class": "X", "args": []}) == {"class": "X"}
    assert about_payload({"class": "X"}, "high") == {"class": "X", "queue": "high"}


def test_the_bytes_of_a_stored_job():
    assert about_raw(json.dumps(PAYLOAD).encode(), "high") == {**ABOUT, "queue": "high"}
    assert about_raw(b"no job", "high") == {"queue": "high"}


def test_an_error_with_its_innermost_frame_first():
    def inner():
        raise LookupError("no such thing")

    try:
        inner()
    except LookupError as error:
        found = about_error(error)
    assert (found["error_class"], found["error_message"]) == ("LookupError", "no such thing")
    assert found["error_backtrace"][0].endswith(":in `inner'")
    assert __file__ in found["error_backtrace"][-1]


def test_an_error_that_was_never_raised_has_no_backtrace():
    assert about_error(Nasty_error()) == {
        "error_class": f"{__name__}.Nasty_error",
        "error_message": "<Nasty_error>",
    }


class Nasty_error(Nasty, Exception):  # noqa: N801  # a name of its own in the expectation
    pass


def test_a_long_error_is_truncated():
    def deeper(depth):
        if not depth:
            raise ValueError("x" * 100_000)
        deeper(depth - 1)

    try:
        deeper(100)
    except ValueError as error:
        found = about_error(error)
    assert len(found["error_message"]) == 2_000
    assert len(found["error_backtrace"]) == 25


def test_arguments_as_text():
    assert arguments_of({"class": "X", "args": [1, "a"]}) == '[1,"a"]'
    assert arguments_of({"class": "X", "args": [1], "kwargs": {"b": 2}}) == '[1,{"b":2}]'
    assert len(arguments_of({"class": "X", "args": ["x" * 5_000]})) == 1_000


def test_an_error_report_names_its_job_and_leaves_out_its_arguments():
    context = {"job": dict(PAYLOAD), "jobstr": b"secret", "context": "settling"}
    assert loggable(context, arguments=False) == {"context": "settling", **ABOUT}
    assert loggable(context, arguments=True) == {
        "context": "settling",
        **ABOUT,
        "args": '["secret",2]',
        "jobstr": "secret",
    }


@pytest.mark.parametrize("context", [{"job": {}}, {"job": {"kwargs": {"a": "secret"}}}, {"jobstr": b"secret"}])
def test_an_error_report_of_an_odd_job_leaves_out_its_arguments_too(context):
    assert loggable(context, arguments=False) == {}


def test_an_error_report_without_a_job_keeps_its_fields():
    assert loggable({"context": "the scheduler", "tick": 1}, arguments=False) == {"context": "the scheduler", "tick": 1}


def test_a_long_payload_in_an_error_report_is_cut():
    assert len(str(loggable({"jobstr": b"x" * 5_000}, arguments=True)["jobstr"])) == 1_000


@pytest.mark.parametrize(
    "own, same", [({}, True), ({"jid": "ab"}, True), ({"jid": "other"}, False), ({"class": "Hard"}, False)]
)
def test_a_line_is_about_the_running_job_unless_it_names_another(own, same):
    assert is_about(JobContext(dict(PAYLOAD), "low"), own) is same


def test_a_line_about_another_job_has_no_fields_of_the_running_one():
    other = {"class": "Other", "jid": "cd"}
    with running(JobContext(dict(PAYLOAD), "low", log={"rows": 7})):
        assert line_fields(other) == other
        assert line_fields({"rows": 8}) == {**ABOUT, "rows": 8}


def test_a_line_about_a_job_has_no_fields_of_the_open_block():
    with context(user="bob", correlation_id="c2"):
        assert line_fields({"jid": "cd"}) == {"jid": "cd"}
        assert line_fields({}) == {"meta.user": "bob", "correlation_id": "c2"}
    assert line_fields({}) == {}


def test_the_size_of_a_job():
    assert size_of(JobContext({"class": "X", "args": []}, "q", raw=b"12345")) == 5
    assert size_of(JobContext({"class": "X", "args": []}, "q")) == len('{"class":"X","args":[]}')


def test_a_line_contains_the_given_fields():
    entry = {"a": 1, "b": "ü\n\x1b[2J\u2028", "c": [1, 2], "d": None, "e": {"f": 1.5}, "g": True}
    assert read(line_of(entry)) == entry


CYCLE: list[object] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    "value, reported",
    [
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (10**5000, "<int>"),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        (CYCLE, ["[[...]]"]),
        ({"a": float("nan")}, "{'a': nan}"),
    ],
    ids=["nan", "inf", "long number", "odd key", "cycle", "nan inside"],
)
def test_values_outside_json_become_text_and_the_rest_is_unchanged(value, reported):
    assert read(line_of({"a": 1, "b": value, "c": None, "d": True, "e": 0.5})) == {
        "a": 1,
        "b": reported,
        "c": None,
        "d": True,
        "e": 0.5,
    }


def test_a_long_line_is_cut_value_by_value():
    found = read(line_of({"jid": "ab", "long": "x" * 100_000, "list": ["y" * 1_000] * 100}))
    assert found["jid"] == "ab"
    assert found["long"] == "x" * 1_999 + "…"
    assert found["list"] == ["y" * 299 + "…"] * 25


def test_many_long_values_are_cut_shorter():
    line = line_of({f"field_{number}": "x" * 3_000 for number in range(60)})
    assert len(line) <= MAX_CHARACTERS
    assert len(read(line)) == 60


@pytest.mark.parametrize("half", ["\udfff", "a\ud83d", "\ude00\ud83d", "\ud83d\ud83d\ude00", "\\\ud801"])
def test_half_a_character_is_replaced(half):
    line = line_of({"jid": "ab", "said": half, "items": [half], "sub": {"key": half}})
    json.loads(line)["said"].encode("utf-8")
    json.dumps(json.loads(line), ensure_ascii=False).encode("utf-8")


@pytest.mark.parametrize("whole", ["😀", "a😀b", "\\ud800", "C:\\users"])
def test_whole_characters_stay(whole):
    assert json.loads(line_of({"said": whole, "sub": {"key": 1}})) == {"said": whole, "sub": {"key": 1}}


def test_many_fields_of_letters_that_json_writes_long_are_left_out_from_the_end():
    line = line_of({"jid": "ab", **{f"field {number}": "😀" * 200 for number in range(400)}})
    assert len(line) <= MAX_CHARACTERS
    assert json.loads(line)["jid"] == "ab"


def test_fields_without_end_are_left_out():
    line = line_of({"first": 1, **{f"{number}" * 100: "\x00" * 3_000 for number in range(1_000)}})
    found = read(line)
    assert found["first"] == 1
    assert len(found) <= 150
    assert len(line) < 10 * MAX_CHARACTERS


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.builds(Nasty),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.integers()), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), VALUES, max_size=5))
def test_any_input_becomes_one_valid_line(entry):
    assert isinstance(read(line_of(entry)), dict)


@given(st.dictionaries(st.text(), VALUES, max_size=5), st.integers(20, 100))
def test_bounded_values_can_be_written(entry, most):
    read(json.dumps(bounded(entry, most), allow_nan=False))
