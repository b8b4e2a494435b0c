"""What a process reports of itself each second."""

from __future__ import annotations

import time

import pytest

from offsider.storage import activity
from offsider.storage.activity import Activity, RunningJob, digest_of
from tests.snapshot import snapshot

IDENTITY = "web-1:7:0123456789ab"


def test_a_report_round_trips_with_the_time_of_the_server(pool, raw_redis):
    raw_redis.hset(IDENTITY, mapping={"info": "{}", "busy": 1})
    running = {"t1": RunningJob("default", "low", 17, 2.5)}
    assert activity.report(pool, IDENTITY, Activity(12.345, 0.5, running), busy=3, work_key=pool.keys.work(IDENTITY))
    read = activity.parse(raw_redis.hget(IDENTITY, activity.FIELD))
    assert read is not None
    assert (read.processed_per_second, read.failed_per_second, read.running) == (12.345, 0.5, running)
    assert read.at == pytest.approx(time.time(), abs=2)
    assert raw_redis.hget(IDENTITY, "busy") == b"3"


def test_a_process_without_private_lists_is_marked(pool, raw_redis):
    raw_redis.hset(IDENTITY, "info", "{}")
    activity.report(pool, IDENTITY, Activity(running=None), busy=0, work_key=pool.keys.work(IDENTITY))
    read = activity.parse(raw_redis.hget(IDENTITY, activity.FIELD))
    assert read is not None
    assert read.running is None


def test_a_report_does_not_bring_a_process_back_that_has_left(pool, raw_redis):
    assert not activity.report(pool, IDENTITY, Activity(), busy=0, work_key=pool.keys.work(IDENTITY))
    assert snapshot(raw_redis) == {}


def test_running_jobs_are_added_and_removed(pool, raw_redis):
    key = pool.keys.work(IDENTITY)

    def shown(**changes: object) -> dict[bytes, bytes]:
        assert activity.report(pool, IDENTITY, Activity(), busy=0, work_key=key, **changes)
        return raw_redis.hgetall(f"{IDENTITY}:work")

    raw_redis.hset(IDENTITY, "info", "{}")
    raw_redis.hset(f"{IDENTITY}:work", "unknown", "{}")
    assert shown(begun={"t1": "one", "t2": "two"}) == {b"t1": b"one", b"t2": b"two"}
    assert 50 < raw_redis.ttl(f"{IDENTITY}:work") <= 60
    assert shown(ended=["t1"], begun={"t2": "new"}) == {b"t2": b"new"}
    assert shown(ended=[]) == {b"t2": b"new"}
    assert shown(ended=["t2"]) == {}


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
