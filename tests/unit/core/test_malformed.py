"""Invalid bytes become a job that both sides can list, and are restored unchanged."""

import json

import pytest
from hypothesis import given, strategies as st

from offsider.core.errors import MalformedPayload
from offsider.core.malformed import RAW, listable, unwrap, wrap, wrapper_of
from offsider.core.payload import MALFORMED_CLASS, decode

NOW = 1_795_216_780_652


def refused(raw: bytes) -> MalformedPayload:
    with pytest.raises(MalformedPayload) as caught:
        decode(raw)
    return caught.value


def test_a_wrapper_has_all_that_rubys_page_of_dead_jobs_reads():
    wrapper = json.loads(wrap(refused(b"\xff no job"), "low", NOW))
    jid = wrapper.pop("jid")
    assert len(jid) == 24
    assert wrapper == {
        "retry": 0,
        "queue": "low",
        "class": "offsider.MalformedPayload",
        "args": ["\ufffd no job"],
        "created_at": NOW,
        "error_message": "malformed payload: not UTF-8 at byte 0",
        "error_class": "offsider.MalformedPayload",
        "failed_at": NOW,
        "malformed_base64": "/yBubyBqb2I=",
    }


@given(st.binary(max_size=100) | st.sampled_from([b"[1,2]", b"5", b"null", b'"x"', b"{}", b'{"class":5,"args":[]}']))
def test_any_bytes_round_trip_and_are_wrapped_once(raw):
    stored = wrap(refused(raw), "low", NOW)
    assert unwrap(stored) == raw
    assert isinstance(json.loads(stored), dict)
    assert refused(stored).reason == "wraps bytes that are not a job"
    assert wrap(refused(stored), "other", NOW + 1) == stored == listable(stored, NOW + 1)


def test_equal_bytes_have_wrappers_that_differ():
    assert listable(b"[1,2]", NOW) != listable(b"[1,2]", NOW)


def test_long_bytes_are_shown_in_part_and_kept_whole():
    raw = b"x" * 1_000_000
    stored = listable(raw, NOW)
    assert json.loads(stored)["args"] == ["x" * 1000]
    assert unwrap(stored) == raw


@pytest.mark.parametrize(
    "raw, queue",
    [
        (b'{"queue":"low","args":[]}', "low"),
        (b'{"queue":7}', "7"),
        (b'{"queue":"low","class":"X","args":[1e999]}', "low"),
        (b'{"queue":[]}', "default"),
        (b'{"queue":"\\ud800"}', "default"),
        (b"5", "default"),
        (b"\xff", "default"),
        (b"[" * 100_000, "default"),
    ],
)
def test_the_queue_is_the_one_that_the_bytes_name(raw, queue):
    assert json.loads(listable(raw, NOW))["queue"] == queue


def test_a_job_is_listed_unwrapped():
    raw = b'{"class":"X", "args":[],"retry":"5"}'
    assert listable(raw, NOW) == raw


@pytest.mark.parametrize(
    "changes",
    [{"class": "X"}, {RAW: 7}, {RAW: "%%%"}, {RAW: None}],
    ids=["another class", "a number", "no base64", "null"],
)
def test_a_look_alike_of_a_wrapper_is_not_unwrapped(changes):
    raw = json.dumps({"class": MALFORMED_CLASS, "args": [], RAW: "eA==", **changes}).encode()
    assert wrapper_of(raw) is unwrap(raw) is None


@pytest.mark.parametrize("raw", [b"malformed_base64", b'["malformed_base64"]', b"5"])
def test_bytes_without_a_class_are_not_a_wrapper(raw):
    assert unwrap(raw) is None
