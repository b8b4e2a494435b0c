"""Sidekiq's registry of processes, as its web pages read it."""

import time

import pytest

from offsider.core.errors import RedisRefused
from offsider.storage import activity, processes
from offsider.storage.activity import Activity, RunningJob
from tests.snapshot import snapshot

IDENTITY = "host:1:aaaaaaaaaaaa"
FIELDS = {"info": '{"a":1}', "busy": 1, "quiet": "false"}
OURS, RUBYS = IDENTITY, "host:2:bbbbbbbbbbbb"
STORED = {b"info": b'{"a":1}', b"busy": b"1", b"quiet": b"false"}


@pytest.mark.parametrize("wire_version, work", [(8, "work"), (7, "work"), (6, "workers")])
def test_a_heartbeat_shows_the_process_and_its_jobs_for_a_minute(pool, raw_redis, wire_version, work):
    key = f"{IDENTITY}:{work}"
    raw_redis.hset(key, "old thread", "{}")
    work = {"tid": '{"queue":"low"}'}
    assert not processes.write(pool, IDENTITY, FIELDS, work, Activity(), wire_version=wire_version)
    stored = snapshot(raw_redis)
    assert activity.parse(stored[IDENTITY].pop(b"activity"))
    assert stored == {
        "processes": {IDENTITY.encode()},
        IDENTITY: STORED,
        key: {b"tid": b'{"queue":"low"}'},
    }
    assert 50 < raw_redis.ttl(IDENTITY) <= 60
    assert 50 < raw_redis.ttl(key) <= 60


def test_the_second_heartbeat_is_recognized_and_idle_threads_are_removed(pool, raw_redis):
    processes.write(pool, IDENTITY, FIELDS, {"tid": "{}"}, Activity(), wire_version=8)
    assert processes.write(pool, IDENTITY, {"info": "{}", "busy": 0, "quiet": "true"}, {}, Activity(), wire_version=8)
    stored = snapshot(raw_redis)
    assert set(stored) == {"processes", IDENTITY}
    assert stored[IDENTITY][b"quiet"] == b"true"


def test_a_process_that_was_pruned_while_it_was_frozen_is_listed_again_at_its_next_heartbeat(pool, raw_redis):
    """A pruner reads the expired hash, the process wakes and writes it, and then the pruner removes the identity."""
    processes.write(pool, IDENTITY, FIELDS, {}, Activity(), wire_version=8)
    raw_redis.srem("processes", IDENTITY)
    assert processes.write(pool, IDENTITY, FIELDS, {}, Activity(), wire_version=8)
    assert processes.identities(pool) == [IDENTITY]


def test_signals_are_received_one_at_a_time_in_order(pool, raw_redis):
    processes.send_signal(pool, IDENTITY, "TSTP")
    processes.send_signal(pool, IDENTITY, "TERM")
    assert 50 < raw_redis.ttl(f"{IDENTITY}-signals") <= 60
    assert [processes.take_signal(pool, IDENTITY) for _ in range(3)] == ["TSTP", "TERM", None]


@pytest.mark.parametrize("wire_version", [6, 8])
def test_leaving_deletes_all_keys_of_the_process(pool, raw_redis, wire_version):
    processes.write(pool, IDENTITY, FIELDS, {"tid": "{}"}, Activity(), wire_version=wire_version)
    processes.leave(pool, IDENTITY)
    assert snapshot(raw_redis) == {}


def test_identities_without_a_hash_are_pruned_by_one_process_a_minute(pool, raw_redis):
    raw_redis.sadd("processes", "dead:1:x", "dead:2:x", IDENTITY)
    raw_redis.hset(IDENTITY, "info", "{}")
    assert processes.prune(pool) == 2
    assert raw_redis.smembers("processes") == {IDENTITY.encode()}
    raw_redis.sadd("processes", "dead:3:x")
    assert processes.prune(pool) == 0
    assert 50 < raw_redis.ttl("process_cleanup") <= 60
    raw_redis.delete("process_cleanup")
    assert processes.prune(pool) == 1


def test_pruning_an_empty_registry_removes_no_process(pool):
    assert processes.prune(pool) == 0


def test_an_invalid_member_hides_no_process(pool, raw_redis):
    raw_redis.hset(IDENTITY, "info", "{}")
    raw_redis.set("odd", "x")
    raw_redis.sadd("processes", "odd", IDENTITY)
    raw_redis.lpush("dear-leader", "x")
    listed = processes.identities(pool)
    assert processes.hashes(pool, listed) == {IDENTITY: {"info": b"{}"}}
    assert processes.leader(pool) == ""
    assert processes.prune(pool) == 1
    assert raw_redis.smembers("processes") == {IDENTITY.encode()}


def test_an_error_does_not_mean_that_there_are_no_processes(pool, raw_redis):
    raw_redis.execute_command("ACL", "SETUSER", "default", "-hmget")
    try:
        with pytest.raises(RedisRefused):
            processes.hashes(pool, [IDENTITY])
    finally:
        raw_redis.execute_command("ACL", "SETUSER", "default", "+@all")


# ------------------------------------------------------------------- reports between heartbeats


def report(pool, running=None, begun=None, **changes) -> bool:
    reported = Activity(12.345, 0.5, running)
    return processes.write(pool, IDENTITY, {"busy": 3}, begun or {}, reported, is_beat=False, wire_version=8, **changes)


@pytest.mark.parametrize(
    "running", [{"t1": RunningJob("default", "low", 17, 2.5)}, None], ids=["private lists", "basic fetcher"]
)
def test_a_report_round_trips_with_the_time_of_the_server(pool, raw_redis, running):
    raw_redis.hset(IDENTITY, mapping={"info": "{}", "busy": 1})
    assert report(pool, running)
    read = activity.parse(raw_redis.hget(IDENTITY, activity.FIELD))
    assert read is not None
    assert (read.processed_per_second, read.failed_per_second, read.running) == (12.345, 0.5, running)
    assert read.at == pytest.approx(time.time(), abs=30)
    assert raw_redis.hget(IDENTITY, "busy") == b"3"


def test_a_report_does_not_bring_a_process_back_that_has_left(pool, raw_redis):
    assert not report(pool)
    assert snapshot(raw_redis) == {}


def test_running_jobs_are_added_and_removed(pool, raw_redis):
    def shown(**changes: object) -> dict[bytes, bytes]:
        assert report(pool, **changes)
        return raw_redis.hgetall(f"{IDENTITY}:work")

    raw_redis.hset(IDENTITY, "info", "{}")
    raw_redis.hset(f"{IDENTITY}:work", "unknown", "{}")
    assert shown(begun={"t1": "one", "t2": "two"}) == {b"t1": b"one", b"t2": b"two"}
    assert 50 < raw_redis.ttl(f"{IDENTITY}:work") <= 60
    assert shown(ended=["t1"], begun={"t2": "new"}) == {b"t2": b"new"}
    assert shown(ended=[]) == {b"t2": b"new"}
    assert shown(ended=["t2"]) == {}


# ------------------------------------------------------------------------------------ published jobs


def test_jobs_of_ruby_processes_are_unknown(pool):
    processes.write(pool, OURS, {"info": "{}", processes.JOBS: '{"b.Job":"1","é":"2"}'}, {}, Activity(), wire_version=8)
    processes.write(pool, RUBYS, {"info": "{}"}, {}, Activity(), wire_version=8)
    assert processes.published_jobs(pool, [OURS, RUBYS]) == {OURS: {"b.Job": "1", "é": "2"}}


@pytest.mark.parametrize("raw", [b"", b"no json", b'["a"]', b"[" * 100_000, b"\xff"])
def test_an_unreadable_report_is_ignored(pool, raw_redis, raw):
    raw_redis.hset(OURS, processes.JOBS, raw)
    assert processes.published_jobs(pool, [OURS]) == {}


def test_without_processes_there_is_no_request(pool):
    assert processes.published_jobs(pool, []) == {}
