"""A stored job as plain values, for any stored bytes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies

from offsider.core.compression import compress
from offsider.inspector import JobRecord
from offsider.screens.redaction import HIDDEN
from offsider.screens.shown_job import listed_job, one_line, redacted_job, shown, start_of

BROKEN = JobRecord(b"\xff<b>")


def everything(name, args, kwargs):
    return args, kwargs


def record(args, **more):
    return JobRecord(json.dumps({"class": "Send", "args": args, "jid": "abc", "queue": "a/b"} | more).encode())


def line(args, most=100, **more):
    job = record(args, **more)
    return one_line(job, redacted_job(job, everything), most)


def test_arguments_are_json_with_commas_between_and_keyword_arguments_by_name():
    assert line([1, "a", None, {"b": [True]}]) == '1, "a", null, {"b": [true]}'
    assert line([1], kwargs={"now": True, "to": "é"}) == '1, now=true, to="é"'
    assert line([]) == ""


@pytest.mark.parametrize("args", [["x" * 200], [["x"] * 200], list(range(200)), [{"x" * 200: 1}]])
def test_long_arguments_are_cut(args):
    text = line(args)
    assert len(text) == 101
    assert text.endswith("…")


def test_large_values_are_cut_before_encoding():
    assert len(line([list(range(1_000_000))], most=50)) == 51


def test_deeply_nested_values_are_cut():
    nested: list = []
    for _ in range(5_000):
        nested = [nested]
    assert start_of(nested, 2_000).startswith("[" * 100)
    assert start_of(nested, 100_000_000, pretty=True).endswith("…")


def test_malformed_jobs_are_shown_unchanged():
    assert one_line(BROKEN, redacted_job(BROKEN, None), 100) == "\N{REPLACEMENT CHARACTER}<b>"


@pytest.mark.parametrize("raw", [b"no job", record([1, 2]).raw])
def test_arguments_are_redacted_before_encoding(raw):
    def nothing(name, args, kwargs):
        return ["[hidden]"], {}

    assert one_line(JobRecord(raw), redacted_job(JobRecord(raw), nothing), 100) in {"[hidden]", '"[hidden]"'}


def test_a_listed_job_has_its_location_and_all_fields():
    job = record([1], tags=["t"] * 30, created_at=1000, error_class="E", error_message="m")
    data = shown(job, listed_job(job, everything), where="retry", key="1.5|abc")
    assert data["path"] == "/job/retry/1.5~7cabc"
    assert data["queue_path"] == "/jobs?where=queue%3Aa~2fb"
    assert data["created_at"] == 1.0
    assert data["error"] == {"class": "E", "message": "m", "short": "E: m"}
    assert len(data["tags"]) == 20
    assert json.loads(json.dumps(data, allow_nan=False)) == data


@pytest.mark.parametrize("redact", [None, everything])
def test_texts_that_may_quote_arguments_that_lists_do_not_expand_are_hidden_if_any_are(redact):
    texts = {"tags": ["vip"], "meta.caller_id": "web#buy", "error_class": "E", "error_message": "no such card"}
    packed = compress({"class": "Pay", "args": ["x" * 300_000], "jid": "abc", **texts})
    job = JobRecord(json.dumps(packed).encode())
    data = shown(job, listed_job(job, redact), where="retry", key="k")
    found = [data["error"]["message"], data["caller"], *data["tags"]]
    assert found == (["no such card", "web#buy", "vip"] if redact is None else [HIDDEN] * 3)
    whole = shown(job, redacted_job(job, redact), where="retry", key="k")
    assert (whole["caller"], whole["tags"]) == ("web#buy", ["vip"])


@given(strategies.binary(max_size=60))
def test_any_bytes_can_be_shown(raw):
    data = shown(JobRecord(raw), listed_job(JobRecord(raw), everything), where="dead", key="k")
    json.dumps(data, allow_nan=False)
