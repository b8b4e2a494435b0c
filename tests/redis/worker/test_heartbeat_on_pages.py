"""What pages see of a process, in the form of the Sidekiq that ``wire_version`` names, and when it is in trouble."""

from __future__ import annotations

import datetime as dt
import json
import os

import pytest
import redis as redis_py

from offsider import __version__
from offsider.core.gil import FREE_THREADED
from offsider.storage import controls, processes
from offsider.worker.heartbeat import Heartbeat
from offsider.worker.run.interrupt import OBSTACLE
from offsider.worker.work_state import WorkState
from tests.begun import begun
from tests.redis.worker.conftest import Parts, make_config
from tests.runs import count
from tests.snapshot import snapshot


class Beating:
    def __init__(self, parts: Parts, *, embedded: bool = False) -> None:
        self.parts = parts
        self.heard: list[str] = []
        self.is_quiet = False
        self.work_state = WorkState()
        for name in ("heartbeat", "beat"):
            parts.config.on(name, lambda name=name: self.heard.append(name))
        self.heartbeat = Heartbeat(
            parts.config,
            parts.redis,
            parts.ownership,
            self.work_state,
            quiet=lambda: self.is_quiet,
            embedded=embedded,
        )
        self.tick = self.heartbeat.tick

    @property
    def identity(self) -> str:
        return self.parts.ownership.identity


@pytest.fixture
def beating(parts) -> Beating:
    return Beating(parts)


def today(client) -> str:
    return dt.datetime.fromtimestamp(client.time()[0], dt.UTC).strftime("%Y-%m-%d")


# ------------------------------------------------------------------------------------- on the pages


def test_the_process_hash_has_the_fields_of_sidekiq(beating, raw_redis):
    assert beating.tick() == 10.0
    fields = raw_redis.hgetall(beating.identity)
    assert set(fields) == {b"info", b"concurrency", b"busy", b"beat", b"rtt_us", b"quiet", b"rss"}
    assert (fields[b"concurrency"], fields[b"busy"], fields[b"quiet"]) == (b"5", b"0", b"false")
    assert abs(float(fields[b"beat"]) - raw_redis.time()[0]) < 60
    assert int(fields[b"rtt_us"]) > 0
    assert int(fields[b"rss"]) > 1000
    assert raw_redis.smembers("processes") == {beating.identity.encode()}


COMMON = {"hostname", "started_at", "pid", "tag", "concurrency", "queues", "labels", "identity", "app_version"}
if OBSTACLE:
    COMMON |= {"uninterruptible"}
if FREE_THREADED:
    COMMON |= {"gil"}


@pytest.mark.parametrize(
    "wire_version, more",
    [(6, set()), (7, {"weights", "version", "embedded"}), (8, {"capsules", "weights", "version", "embedded"})],
)
def test_info_is_that_of_the_version_that_is_written(worker_config, raw_redis, wire_version, more):
    worker_config.redis.wire_version = wire_version
    worker_config.worker.tag = "shop"
    worker_config.client.app_version = "2.14"
    worker_config.capsule("slow", concurrency=2, queues=["slow"])
    beating = Beating(Parts(worker_config, ("high,2", "low,1")))
    assert beating.tick() == (5.0 if wire_version == 6 else 10.0)
    info = json.loads(raw_redis.hget(beating.identity, "info"))
    assert set(info) == COMMON | more
    assert (info["pid"], info["tag"], info["labels"]) == (os.getpid(), "shop", [])
    assert (info["queues"], info["concurrency"]) == (["high", "low", "slow"], 7)
    assert info["identity"] == beating.identity
    assert info["app_version"] == "2.14"
    if wire_version >= 7:
        assert info["weights"] == [{"high": 2, "low": 1}, {"slow": 0}]
        assert (info["version"], info["embedded"]) == (__version__, False)
    if wire_version == 8:
        assert info["capsules"]["slow"] == {"concurrency": 2, "mode": "strict", "weights": {"slow": 0}}
    beating.parts.close()


def test_info_has_the_routing_rules_of_the_process(worker_config, raw_redis):
    worker_config.routing.rules = [["*", "default"]]
    beating = Beating(Parts(worker_config))
    beating.tick()
    assert json.loads(raw_redis.hget(beating.identity, "info"))["routing"] == worker_config.routing.rules.digest
    beating.parts.close()


@pytest.mark.parametrize("wire_version, key", [(6, "workers"), (7, "work"), (8, "work")])
def test_running_jobs_are_shown(worker_config, raw_redis, wire_version, key):
    worker_config.redis.wire_version = wire_version
    beating = Beating(Parts(worker_config))
    beating.work_state.begin("tid", *begun("low", b'{"class":"X"}', 1_795_216_780.9))
    beating.tick()
    shown = json.loads(raw_redis.hget(f"{beating.identity}:{key}", "tid"))
    assert shown == {"queue": "low", "payload": '{"class":"X"}', "run_at": 1_795_216_780}
    assert raw_redis.hget(beating.identity, "busy") == b"1"
    beating.work_state.end("tid")
    beating.tick()
    assert not raw_redis.exists(f"{beating.identity}:{key}")
    beating.parts.close()


def test_a_quiet_process_is_marked(beating, raw_redis):
    beating.is_quiet = True
    beating.tick()
    assert raw_redis.hget(beating.identity, "quiet") == b"true"


def test_extensions_add_fields_and_a_broken_one_hides_nothing(beating, raw_redis):
    def broken():
        raise KeyError("no field")

    beating.parts.config.add_info(lambda: {"color": "green"})
    beating.parts.config.add_info(broken)
    beating.parts.config.add_info(lambda: {"object": object()})
    beating.tick()
    info = json.loads(raw_redis.hget(beating.identity, "info"))
    assert info["color"] == "green"
    assert "object" not in info
    assert len(beating.parts.errors) == 2


def test_leaving_removes_the_process_from_the_registry(beating, raw_redis):
    beating.tick()
    beating.heartbeat.leave()
    assert {key for key in snapshot(raw_redis) if not key.startswith("offsider:series:shards")} == {
        "process_cleanup",
        "queues",
    }


def test_dead_identities_are_pruned_during_a_heartbeat(beating, raw_redis):
    raw_redis.sadd("processes", "gone:1:x")
    beating.tick()
    assert raw_redis.smembers("processes") == {beating.identity.encode()}


def test_counts_are_written_at_each_beat(beating, raw_redis):
    count(beating.work_state.runs, 3, failed=1)
    beating.tick()
    beating.tick()
    day = today(raw_redis)
    assert raw_redis.mget("stat:processed", "stat:failed", f"stat:processed:{day}", f"stat:failed:{day}") == [
        b"3",
        b"1",
        b"3",
        b"1",
    ]


def test_a_process_that_drains_a_full_server_stays_visible_and_receives_signals(make_server):
    server = make_server()
    beating = Beating(Parts(make_config(server.url)))
    with redis_py.Redis.from_url(server.url) as client:
        processes.send_signal(beating.parts.redis, beating.identity, "TSTP")
        client.config_set("maxmemory", 1)
        count(beating.work_state.runs, 1)
        beating.tick()
        assert client.hget(beating.identity, "busy") == b"0"
        assert controls.read(beating.parts.redis, beating.heartbeat.identity).signal == "TSTP"
        assert beating.heard == ["heartbeat", "beat"]
        client.config_set("maxmemory", 0)
        beating.tick()
        assert client.get("stat:processed") == b"1"
    beating.parts.close()
