"""Each fault of a server is found on a server that has it."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack

import pytest
import redis

from offsider.inspector.doctor import server_checks
from offsider.inspector.doctor.server_checks import CLOCK_CHECKS, SERVER_CHECKS, check_scripts, check_wire_version
from offsider.inspector.finding import Severity
from offsider.storage.clocks import Comparison
from offsider.storage.server_info import ServerFacts
from tests.redis.inspector.examined import examined, severity
from tests.waiting import wait_for


def test_a_healthy_server_has_no_fault(redis_url):
    found = examined(redis_url)
    for check in ("version", "eviction", "persistence", "memory", "clock"):
        assert severity(found, check) == "ok", found[check]
    for check in ("role", "saves", "clients", "replicas"):
        assert check not in found


def test_a_server_that_is_too_old():
    [finding] = server_checks.check_version(ServerFacts(kind="redis", version=(6, 2, 1)))
    assert finding.severity is Severity.ERROR
    assert "redis 6.2.1 is too old" in finding.what


def test_a_server_that_evicts_jobs_when_full(make_server):
    server = make_server(maxmemory="100mb", maxmemory_policy="allkeys-lru")
    finding = examined(server.url)["eviction"]
    assert finding.severity is Severity.ERROR
    assert finding.what == "maxmemory-policy is allkeys-lru"
    assert "CONFIG SET maxmemory-policy noeviction" in finding.actions[0]


def test_an_evicting_policy_without_a_limit_is_a_warning(make_server):
    assert severity(examined(make_server(maxmemory_policy="volatile-lru").url), "eviction") == "warn"


def test_a_server_that_has_thrown_keys_away(make_server):
    server = make_server(persist=False)
    with redis.Redis.from_url(server.url) as client:
        used = client.info("memory")["used_memory"]
        client.config_set("maxmemory", used + 1_000_000)
        client.config_set("maxmemory-policy", "allkeys-random")
        wait_for(lambda: client.set(f"k{client.incr('n')}", "x" * 100_000) and client.info("stats")["evicted_keys"])
        client.config_set("maxmemory", 0)
        client.config_set("maxmemory-policy", "noeviction")
    findings = [finding for finding in _all(server.url) if finding.id == "eviction"]
    assert sorted(finding.severity for finding in findings) == [Severity.OK, Severity.ERROR]
    assert "has evicted" in findings[0].what


@pytest.mark.needs("redis-server")
def test_the_fix_of_a_setting_changes_every_node_of_a_cluster(cluster):
    for node in cluster.nodes:
        node.raw.config_set("appendfsync", "no")
    try:
        command, _, _ = examined(cluster.url)["persistence"].actions[0].partition(" (")
        subprocess.run(command.split(), check=True)
        assert {node.raw.config_get("appendfsync")["appendfsync"] for node in cluster.nodes} == {"everysec"}
    finally:
        for node in cluster.nodes:
            node.raw.config_set("appendfsync", "everysec")
    assert severity(examined(cluster.url), "persistence") == "ok"


def _all(url: str):
    from offsider.config.config import Config
    from offsider.inspector.doctor.examination import examine

    config = Config()
    config.redis.url = url
    return examine(config)


def test_a_server_that_keeps_nothing_on_disk(make_server):
    finding = examined(make_server(persist=False).url)["persistence"]
    assert (finding.severity, finding.what) == (Severity.ERROR, "neither AOF nor RDB is on")


def test_a_server_with_snapshots_alone(make_server):
    finding = examined(make_server(persist=False, save="3600 1").url)["persistence"]
    assert (finding.severity, finding.what) == (Severity.WARN, "only snapshots (RDB) are written")


def test_a_server_that_flushes_when_it_likes(make_server):
    finding = examined(make_server(appendfsync="no").url)["persistence"]
    assert (finding.severity, "appendfsync no" in finding.what) == (Severity.WARN, True)


def test_a_server_that_could_not_write_to_its_disk(make_server):
    server = make_server(persist=False, dbfilename="taken")
    (server.folder / "taken").mkdir()
    with redis.Redis.from_url(server.url) as client:
        client.set("a", "1")
        client.bgsave()
        wait_for(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err")
    finding = examined(server.url)["saves"]
    assert (finding.severity, finding.what) == (Severity.ERROR, "the last write to disk failed (rdb)")


@pytest.mark.parametrize("room, expected", [(0.9, "error"), (1.1, "warn"), (3.0, "ok")])
def test_a_server_whose_memory_is_full(make_server, room, expected):
    server = make_server(persist=False)
    with redis.Redis.from_url(server.url) as client:
        for number in range(200):
            client.set(f"fill {number}", "x" * 100_000)
        client.config_set("maxmemory", int(client.info("memory")["used_memory"] * room))
    finding = examined(server.url)["memory"]
    assert finding.severity.name.lower() == expected
    assert " MB of " in finding.what


def test_a_server_with_next_to_no_memory():
    [finding] = server_checks.check_full(ServerFacts(used_memory=3_482_232, max_memory=1))
    assert (finding.severity, finding.what) == (Severity.ERROR, "out of memory (3 MB of 1 byte used)")


def test_a_server_that_has_no_room_for_clients(make_server):
    server = make_server(maxclients="20")
    with ExitStack() as stack:
        for _ in range(17):
            stack.enter_context(redis.Redis.from_url(server.url)).ping()
        finding = examined(server.url)["clients"]
    assert finding.severity is not Severity.OK
    assert finding.what.endswith("of 20 connections are open")


def test_a_server_that_waits_for_replicas(make_server):
    finding = examined(make_server(min_replicas_to_write="1").url)["replicas"]
    assert (finding.severity, finding.what) == (Severity.ERROR, "0 of at least 1 replicas are in sync")


def test_a_replica(make_server):
    finding = examined(make_server(replicaof="127.0.0.1 1", replica_serve_stale_data="yes").url)["role"]
    assert (finding.severity, finding.what) == (Severity.ERROR, "the server is a read-only replica")


def test_a_cluster(make_server):
    found = examined(make_server(cluster_enabled="yes").url)
    assert (found["role"].severity, found["role"].what) == (
        Severity.ERROR,
        "the server is a Cluster, and its URL is that of a single server",
    )


def test_a_single_server_with_the_url_of_a_cluster(make_server):
    server = make_server(port=0, persist=False)
    found = examined(server.url.replace("redis://", "redis+cluster://"))
    assert found["cluster"].severity is Severity.WARN
    assert "programs with redis:// do not see these jobs" in found["cluster"].sentence
    assert "--cluster" not in " ".join(action for finding in found.values() for action in finding.actions)


def test_a_cluster_is_shown_with_tag_slot_and_primary(cluster):
    found = examined(cluster.url)
    assert (found["cluster"].severity, found["cluster"].what) == (
        Severity.OK,
        f"hash tag {{offsider}}, slot 8428, primary {cluster.primary().address}",
    )
    assert "role" not in found


def test_missing_permissions_are_reported(raw_redis, redis_url):
    raw_redis.execute_command("ACL", "SETUSER", "shy", "on", ">secret", "~*", "+@all", "-info", "-config")
    try:
        found = examined(redis_url, username="shy", password="secret")
    finally:
        raw_redis.execute_command("ACL", "DELUSER", "shy")
    assert severity(found, "unknown") == "warn"
    assert found["unknown"].what == (
        "this user may not call INFO, CONFIG, so these were not checked: maxmemory-policy, AOF, RDB, memory"
    )
    assert not {"eviction", "persistence", "memory"} & set(found)


@pytest.mark.parametrize("seconds, expected", [(0.0002, "ok"), (0.02, "warn"), (0.2, "error")])
def test_a_server_that_is_far_away(seconds, expected):
    [finding] = server_checks.check_latency(Comparison(seconds, 0.0, 0.0))
    assert finding.severity.name.lower() == expected


@pytest.mark.parametrize("ahead, message", [(-90.0, "90.0 s ahead of"), (90.0, "90.0 s behind")])
def test_a_machine_whose_clock_is_wrong(ahead, message):
    [finding] = server_checks.check_clock(Comparison(0.001, 0.0, ahead))
    assert (finding.severity, message in finding.what) == (Severity.ERROR, True)


def test_a_user_without_scripts(make_server):
    server = make_server(port=0)
    with redis.Redis.from_url(server.url) as client:
        client.execute_command("ACL", "SETUSER", "noscript", "on", ">pw", "~*", "+@all", "-@scripting")
    finding = examined(server.url, username="noscript", password="pw")["scripts"]
    assert finding.fatal
    assert "does not run Lua scripts for this user" in finding.what


def test_every_finding_that_is_not_ok_has_a_next_step(make_server):
    server = make_server(persist=False, maxmemory="100mb", maxmemory_policy="allkeys-lru", min_replicas_to_write="1")
    for finding in examined(server.url).values():
        assert bool(finding.severity) == bool(finding.cause) == bool(finding.actions)


def test_every_check_is_among_the_checks():
    named = {name for name in vars(server_checks) if name.startswith("check_")}
    assert {check.__name__ for check in (*SERVER_CHECKS, *CLOCK_CHECKS, check_scripts, check_wire_version)} == named
