"""What a process reports of itself each second."""

from __future__ import annotations

import pytest

from offsider.storage import activity
from offsider.storage.activity import RunningJob, digest_of

IDENTITY = "web-1:7:0123456789ab"


@pytest.mark.parametrize("raw", [None, b"", b"[]", b"{}", b'{"processed":1}', b'{"processed":"x"}', b"[" * 100_000])
def test_an_unreadable_report_is_none(raw):
    assert activity.parse(raw) is None


@pytest.mark.parametrize("running", ["7", '{"t":7}', '{"t":[]}', '{"t":[1,2,3,"x"]}'])
def test_unreadable_running_jobs_are_not_a_report(running):
    assert activity.parse(f'{{"processed":1,"failed":0,"running":{running},"at":1}}'.encode()) is None


def test_payloads_are_read_from_the_private_lists(pool, raw_redis):
    raw_redis.lpush(f"offsider:working:{IDENTITY}:default:low", b"old", b"new")
    running = {
        IDENTITY: {
            "t1": RunningJob("default", "low", digest_of(b"new"), 1.0),
            "t2": RunningJob("default", "low", digest_of(b"ended"), 1.0),
        }
    }
    assert activity.payloads(pool, running) == {(IDENTITY, "t1"): b"new"}
    assert activity.payloads(pool, {}) == {}


def test_a_running_job_is_found_after_finished_unacknowledged_jobs(pool, raw_redis):
    raw_redis.rpush(f"offsider:working:{IDENTITY}:default:low", b"running", *[b"finished"] * 100)
    running = {IDENTITY: {"t1": RunningJob("default", "low", digest_of(b"running"), 1.0)}}
    assert activity.payloads(pool, running) == {(IDENTITY, "t1"): b"running"}
