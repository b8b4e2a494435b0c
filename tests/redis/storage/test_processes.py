"""Sidekiq's registry of processes, as its web pages read it."""

import pytest

from offsider.core.errors import RedisRefused
from offsider.storage import controls, processes
from tests.snapshot import snapshot

IDENTITY = "host:1:aaaaaaaaaaaa"
FIELDS = {"info": '{"a":1}', "busy": 1, "quiet": "false"}
OURS, RUBYS = IDENTITY, "host:2:bbbbbbbbbbbb"
JOBS_KEY = f"offsider:classes:{IDENTITY}"
STORED = {b"info": b'{"a":1}', b"busy": b"1", b"quiet": b"false"}


@pytest.mark.parametrize("wire_version, work", [(8, "work"), (7, "work"), (6, "workers")])
def test_a_heartbeat_shows_the_process_and_its_jobs_for_a_minute(pool, raw_redis, wire_version, work):
    key = f"{IDENTITY}:{work}"
    raw_redis.hset(key, "old thread", "{}")
    work = {"tid": '{"queue":"low"}'}
    assert not processes.heartbeat(pool, IDENTITY, FIELDS, work, wire_version=wire_version)
    assert snapshot(raw_redis) == {
        "processes": {IDENTITY.encode()},
        IDENTITY: STORED,
        key: {b"tid": b'{"queue":"low"}'},
    }
    assert 50 < raw_redis.ttl(IDENTITY) <= 60
    assert 50 < raw_redis.ttl(key) <= 60


def test_the_second_heartbeat_is_recognized_and_idle_threads_are_removed(pool, raw_redis):
    processes.heartbeat(pool, IDENTITY, FIELDS, {"tid": "{}"}, wire_version=8)
    assert processes.heartbeat(pool, IDENTITY, {"info": "{}", "busy": 0, "quiet": "true"}, {}, wire_version=8)
    stored = snapshot(raw_redis)
    assert set(stored) == {"processes", IDENTITY}
    assert stored[IDENTITY][b"quiet"] == b"true"


def test_signals_are_received_one_at_a_time_in_order(pool, raw_redis):
    processes.send_signal(pool, IDENTITY, "TSTP")
    processes.send_signal(pool, IDENTITY, "TERM")
    assert 50 < raw_redis.ttl(f"{IDENTITY}-signals") <= 60
    assert [controls.read(pool, IDENTITY).signal for _ in range(3)] == ["TSTP", "TERM", None]


def test_a_heartbeat_of_an_idle_process_removes_its_jobs(pool, raw_redis):
    raw_redis.hset(f"{IDENTITY}:work", "tid", "{}")
    processes.heartbeat(pool, IDENTITY, FIELDS, {}, wire_version=8)
    assert not raw_redis.exists(f"{IDENTITY}:work")


def test_published_jobs_are_prolonged_unless_they_have_expired(pool, raw_redis):
    assert not processes.keep_published(pool, IDENTITY)
    processes.publish_jobs(pool, IDENTITY, {"a": "1"})
    raw_redis.expire(f"offsider:classes:{IDENTITY}", 5)
    assert processes.keep_published(pool, IDENTITY)
    assert 50 < raw_redis.ttl(f"offsider:classes:{IDENTITY}") <= 60


@pytest.mark.parametrize("wire_version", [6, 8])
def test_leaving_deletes_all_keys_of_the_process(pool, raw_redis, wire_version):
    processes.heartbeat(pool, IDENTITY, FIELDS, {"tid": "{}"}, wire_version=wire_version)
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


def test_pruning_leaves_the_living_alone(pool, raw_redis):
    raw_redis.sadd("processes", IDENTITY)
    raw_redis.hset(IDENTITY, "info", "{}")
    assert processes.prune(pool) == 0
    assert raw_redis.smembers("processes") == {IDENTITY.encode()}


def test_pruning_an_empty_registry_removes_no_process(pool):
    assert processes.prune(pool) == 0


def test_infos_are_those_of_the_living(pool, raw_redis):
    raw_redis.hset(IDENTITY, "info", "{}")
    assert processes.infos(pool, [IDENTITY, "dead:1:x"]) == {IDENTITY: b"{}"}
    assert processes.infos(pool, []) == {}


def test_hashes_are_those_of_the_living_field_by_field(pool, raw_redis):
    raw_redis.hset(IDENTITY, mapping={"info": "{}", "quiet": "true", "of our own": "x"})
    assert processes.hashes(pool, [IDENTITY, "dead:1:x"]) == {IDENTITY: {"info": b"{}", "quiet": b"true"}}
    assert processes.hashes(pool, []) == {}


def test_identities_are_sorted(pool, raw_redis):
    raw_redis.sadd("processes", "b:1:x", "a:1:x")
    assert processes.identities(pool) == ["a:1:x", "b:1:x"]


def test_the_leader_is_that_of_sidekiq_enterprise(pool, raw_redis):
    assert processes.leader(pool) == ""
    raw_redis.set("dear-leader", "host:1:abc")
    assert processes.leader(pool) == "host:1:abc"


def test_running_jobs_are_read_under_the_names_of_every_version(pool, raw_redis):
    raw_redis.hset("a:1:x:work", mapping={"t1": "one", "t2": "two"})
    raw_redis.hset("b:2:y:workers", mapping={"t1": "three"})
    raw_redis.set("c:3:z:work", "no hash")
    found = processes.work(pool, ["a:1:x", "b:2:y", "c:3:z"])
    assert sorted(found) == [("a:1:x", "t1", b"one"), ("a:1:x", "t2", b"two"), ("b:2:y", "t1", b"three")]
    assert processes.work(pool, []) == []


def test_an_identity_that_is_not_text_is_omitted(pool, raw_redis):
    raw_redis.sadd("processes", b"\xff", "a:1:x")
    assert processes.identities(pool) == ["a:1:x"]


def test_an_invalid_member_hides_no_process(pool, raw_redis):
    raw_redis.hset(IDENTITY, "info", "{}")
    raw_redis.set("odd", "x")
    raw_redis.sadd("processes", "odd", IDENTITY)
    raw_redis.lpush("dear-leader", "x")
    listed = processes.identities(pool)
    assert processes.hashes(pool, listed) == {IDENTITY: {"info": b"{}"}}
    assert processes.infos(pool, listed) == {IDENTITY: b"{}"}
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


# ------------------------------------------------------------------------------------ published jobs


def test_known_jobs_of_a_process_expire_after_a_minute(pool, raw_redis):
    processes.publish_jobs(pool, OURS, {"é": "2", "b.Job": "1"})
    assert snapshot(raw_redis) == {JOBS_KEY: '{"b.Job":"1","é":"2"}'.encode()}
    assert 50 < raw_redis.ttl(JOBS_KEY) <= 60
    assert processes.published_jobs(pool, [OURS, RUBYS]) == {OURS: {"b.Job": "1", "é": "2"}}


def test_a_new_report_replaces_the_old_one(pool, raw_redis):
    processes.publish_jobs(pool, OURS, {"a": "1", "b": "1"})
    raw_redis.expire(JOBS_KEY, 5)
    processes.publish_jobs(pool, OURS, {"c": "1"})
    assert processes.published_jobs(pool, [OURS]) == {OURS: {"c": "1"}}
    assert raw_redis.ttl(JOBS_KEY) > 50


def test_leaving_deletes_the_report_of_a_process(pool, raw_redis):
    processes.publish_jobs(pool, OURS, {"a": "1"})
    processes.leave(pool, OURS)
    assert snapshot(raw_redis) == {}


@pytest.mark.parametrize("raw", [b"", b"no json", b'["a"]', b"[" * 100_000, b"\xff"])
def test_an_unreadable_report_is_ignored(pool, raw_redis, raw):
    raw_redis.set(JOBS_KEY, raw)
    assert processes.published_jobs(pool, [OURS]) == {}


def test_without_processes_there_is_no_request(pool):
    assert processes.published_jobs(pool, []) == {}
