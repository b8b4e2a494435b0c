"""The processes that are registered, ours and Ruby's of every version, and the signals that are left for them."""

from __future__ import annotations

import json

import pytest

from offsider.core.errors import EmbeddedProcess
from offsider.inspector import CapsuleShown, ProcessSet
from offsider.worker.launcher import Launcher
from tests.waiting import wait_for

OURS = "web-1:17:0123456789ab"
HASH = {
    "info": json.dumps(
        {
            "hostname": "web-1",
            "started_at": 1_795_216_780.25,
            "pid": 17,
            "tag": "shop",
            "concurrency": 12,
            "queues": ["high", "low"],
            "labels": ["blue"],
            "identity": OURS,
            "version": "1.0",
            "embedded": False,
            "shard": "urgent",
            "app_version": "2.14",
        }
    ),
    "concurrency": 12,
    "busy": 3,
    "beat": "1795216790.5",
    "rtt_us": 180,
    "quiet": "false",
    "rss": 51200,
}


@pytest.fixture
def register(raw_redis):
    def register(identity: str = OURS, **changed) -> None:
        raw_redis.sadd("processes", identity)
        raw_redis.hset(identity, mapping=HASH | changed)

    return register


def test_a_process_is_read_from_its_heartbeat(config, register):
    register()
    [process] = ProcessSet(config)
    assert process == ProcessSet(config).find(OURS)
    assert (process.identity, process.hostname, process.pid) == (OURS, "web-1", 17)
    assert (process.started_at, process.beat_at) == (1_795_216_780.25, 1_795_216_790.5)
    assert (process.concurrency, process.busy, process.is_quiet) == (12, 3, False)
    assert (process.queues, process.labels, process.tag) == (["high", "low"], ["blue"], "shop")
    assert (process.version, process.embedded, process.shard) == ("1.0", False, "urgent")
    assert process.app_version == "2.14"
    assert (process.rss_kilobytes, process.round_trip_microseconds) == (51200, 180)


def test_a_running_worker_shows_itself(config, raw_redis):
    launcher = Launcher(config)
    config.worker.tag = "shop"
    launcher.start()
    try:
        [process] = wait_for(lambda: list(ProcessSet(config)))
        launcher.quiet()
        launcher.parts.heartbeat.tick()
        assert process.identity == launcher.identity
        assert (process.tag, process.queues, process.concurrency) == ("shop", ["default"], 5)
        assert not process.is_quiet
        quiet = ProcessSet(config).find(process.identity)
        assert quiet.is_quiet
        assert quiet.stopping
    finally:
        launcher.stop()
    assert len(ProcessSet(config)) == 0


def test_processes_are_sorted_by_identity_and_dead_ones_are_omitted(config, register, raw_redis):
    register("b:2:x")
    register("a:1:x")
    raw_redis.sadd("processes", "dead:3:x")
    assert [process.identity for process in ProcessSet(config)] == ["a:1:x", "b:2:x"]
    assert len(ProcessSet(config)) == 2
    assert ProcessSet(config).find("dead:3:x") is None


def test_a_ruby_process_of_version_8_is_read_from_its_capsules(config, register):
    capsules = {
        "default": {"concurrency": 5, "mode": "strict", "weights": {"high": 0, "low": 0}},
        "one": {"concurrency": 1, "mode": "strict", "weights": {"low": 0, "slow": 0}},
    }
    register(info=json.dumps({"hostname": "web-1", "pid": 17, "capsules": capsules}), concurrency=6)
    [process] = ProcessSet(config)
    assert (process.concurrency, process.queues) == (6, ["high", "low", "slow"])


@pytest.mark.parametrize(
    "info",
    [
        "",
        "no json",
        "[]",
        "[" * 100_000,
        "{}",
        '{"capsules":[]}',
        '{"capsules":{"a":1,"b":{"concurrency":"many","weights":[]}},"pid":"x","tag":1,"labels":"x","started_at":[]}',
        '{"concurrency":1e999,"queues":{"a":1},"labels":[1,"x"],"pid":null,"hostname":null}',
    ],
)
def test_invalid_data_of_others_hides_no_process(config, register, info):
    register(info=info, concurrency="nan", busy="?", rss="nan", beat="")
    [process] = ProcessSet(config)
    assert (process.identity, process.hostname) == (OURS, "web-1")
    assert process.pid in (0, 17)
    assert (process.concurrency, process.queues, process.busy) == (0, [], 0)
    assert (process.rss_kilobytes, process.beat_at, process.started_at, process.tag) == (0, 0.0, 0.0, "")
    assert process.labels in ([], ["x"])


@pytest.mark.parametrize("verb, signal", [("quiet", b"TSTP"), ("stop", b"TERM"), ("dump", b"TTIN")])
def test_a_signal_waits_for_the_next_heartbeat_as_sidekiqs_does(config, register, raw_redis, verb, signal):
    register()
    [process] = ProcessSet(config)
    getattr(process, verb)()
    assert raw_redis.lrange(f"{OURS}-signals", 0, -1) == [signal]
    assert 50 < raw_redis.ttl(f"{OURS}-signals") <= 60


def test_a_worker_inside_another_program_is_left_alone(config, register, raw_redis):
    register(info=json.dumps({"embedded": True}))
    [process] = ProcessSet(config)
    with pytest.raises(EmbeddedProcess, match=f"{OURS} is embedded in another program"):
        process.stop()
    assert not raw_redis.exists(f"{OURS}-signals")


def test_all_of_them_together(config, register, raw_redis):
    register("a:1:x")
    register("b:2:x", rss=1000)
    raw_redis.set("dear-leader", "b:2:x")
    processes = ProcessSet(config)
    assert (processes.total_concurrency, processes.total_rss_kilobytes) == (24, 52200)
    assert processes.leader == "b:2:x"
    assert [process.leader for process in processes] == [False, True]
    assert processes.find("b:2:x").leader


def test_those_that_fell_silent_are_struck_off_once_a_minute(config, register, raw_redis):
    processes = ProcessSet(config)
    assert processes.leader == ""
    register("a:1:x")
    raw_redis.sadd("processes", "dead:3:x", "dead:4:x")
    assert processes.cleanup() == 2
    assert raw_redis.smembers("processes") == {b"a:1:x"}
    raw_redis.sadd("processes", "dead:5:x")
    assert processes.cleanup() == 0
    raw_redis.delete("process_cleanup")
    assert processes.cleanup() == 1
    raw_redis.delete("process_cleanup")
    assert processes.cleanup() == 0


def test_capsules_and_weights_are_those_of_its_version(config, register):
    weights = {"high": 2, "low": 1}
    register("a:1:x", info=json.dumps({"weights": [weights, {"one": 0}], "concurrency": 5}))
    register("b:2:x", info=json.dumps({"weights": weights}), concurrency="")
    capsules = {"default": {"concurrency": 5, "mode": "weighted", "weights": weights}}
    register("c:3:x", info=json.dumps({"capsules": capsules}))
    seven, six, eight = ProcessSet(config)
    assert (seven.weights, seven.capsules) == ({"high": 2, "low": 1, "one": 0}, {})
    assert (six.weights, six.concurrency) == (weights, 0)
    assert eight.capsules == {"default": CapsuleShown(5, "weighted", weights)}
    assert eight.weights == weights
