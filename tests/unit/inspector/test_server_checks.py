"""The checks of a server that both a worker and the doctor run, on servers as they describe themselves."""

from __future__ import annotations

import pytest

from offsider.core.errors import RedisRefused
from offsider.inspector.finding import Finding, Severity
from offsider.inspector.findings import server_checks
from offsider.inspector.findings.server_checks import BOOT_CHECKS, SERVER_CHECKS, check_scripts, check_wire_version
from offsider.inspector.server_info import ServerInfo

GOOD = {
    "store": "redis",
    "version_info": (7, 0, 15),
    "mode": "standalone",
    "role": "master",
    "policy": "noeviction",
    "aof": True,
    "rdb": True,
    "used_memory_bytes": 1,
    "max_memory_bytes": 0,
}


def problems(**changes: object) -> list[Finding]:
    info = ServerInfo(**(GOOD | changes))
    return [finding for check in BOOT_CHECKS for finding in check(info)]


def test_a_good_server_passes():
    assert problems() == []


@pytest.mark.parametrize("kind, version", [("redis", (6, 2, 7)), ("valkey", (7, 0)), ("dragonfly", (1, 26, 9))])
def test_an_old_server_is_refused(kind, version):
    [finding] = problems(store=kind, version_info=version)
    assert finding.fatal
    assert finding.what == f"{kind} {'.'.join(map(str, version))} is too old"


@pytest.mark.parametrize(
    "kind, version", [("redis", (7, 0)), ("redis", (8, 2)), ("valkey", (7, 2, 0)), ("dragonfly", (1, 27)), ("", ())]
)
def test_a_new_or_unknown_version_is_accepted(kind, version):
    assert not any(finding.fatal for finding in problems(store=kind, version_info=version))


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"mode": "cluster"}, "is a Cluster, and its URL"),
        ({"mode": "sentinel"}, "put its address into redis.sentinels"),
        ({"role": "replica"}, "read-only replica"),
    ],
)
def test_a_cluster_a_sentinel_and_a_replica_are_refused(changes, message):
    [finding] = problems(**changes)
    assert finding.fatal
    assert message in finding.sentence


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"policy": "allkeys-lru"}, "maxmemory-policy is allkeys-lru: a full server evicts jobs"),
        ({"aof": False, "rdb": False}, "neither AOF nor RDB is on: a restart of the server loses all jobs"),
        (
            {"used_memory_bytes": 9, "max_memory_bytes": 8},
            "out of memory (9 bytes of 8 bytes): while memory is full, pushes fail",
        ),
        (
            {"used_memory_bytes": 7_000_000, "max_memory_bytes": 8_000_000},
            "88% of the memory used (7 MB of 8 MB): while memory",
        ),
    ],
)
def test_risks_are_warned_about(changes, message):
    [finding] = problems(**changes)
    assert not finding.fatal
    assert finding.sentence.startswith(message)


@pytest.mark.parametrize(
    "changes, found, severity, what, numbers",
    [
        ({"aof": False}, "persistence", Severity.WARN, "only snapshots (RDB) are written", {}),
        ({"fsync": "no"}, "persistence", Severity.WARN, "the operating system decides when to flush", {}),
        ({"failed_saves": ("rdb",)}, "saves", Severity.ERROR, "the last write to disk failed (rdb)", {}),
        (
            {"connected_clients": 17, "max_clients": 20},
            "clients",
            Severity.WARN,
            "17 of 20 connections are open",
            {"clients": 17, "limit": 20},
        ),
        (
            {"connected_clients": 19, "max_clients": 20},
            "clients",
            Severity.ERROR,
            "19 of 20",
            {"clients": 19, "limit": 20},
        ),
        (
            {"good_replicas": 1, "least_replicas": 2},
            "replicas",
            Severity.ERROR,
            "1 of at least 2 replicas are in sync",
            {"replicas": 1, "limit": 2},
        ),
    ],
)
def test_risks_that_only_the_doctor_reports(changes, found, severity, what, numbers):
    """A worker would log them at each start, for example on every server with the default settings of Redis."""
    assert problems(**changes) == []
    [finding] = [each for check in SERVER_CHECKS for each in check(ServerInfo(**(GOOD | changes)))]
    assert (finding.name, finding.severity, finding.numbers) == (found, severity, numbers)
    assert finding.what.startswith(what)


@pytest.mark.parametrize(
    "changes, severity", [({}, Severity.WARN), ({"max_memory_bytes": 100, "evicted": 3}, Severity.ERROR)]
)
def test_an_evicting_policy_is_an_error_only_with_a_limit(changes, severity):
    [finding] = problems(policy="volatile-lru", **changes)
    assert (finding.severity, finding.numbers) == (severity, {"evicted_keys": changes.get("evicted", 0)})


@pytest.mark.parametrize(
    "used, severity", [(79, None), (80, Severity.WARN), (95, Severity.ERROR), (100, Severity.ERROR)]
)
def test_memory_is_judged_by_its_share(used, severity):
    found = problems(used_memory_bytes=used, max_memory_bytes=100)
    assert [finding.severity for finding in found] == ([severity] if severity else [])
    assert [finding.numbers for finding in found] == ([{"used_bytes": used, "limit_bytes": 100}] if severity else [])


def test_partial_facts_are_named_and_no_risk_is_assumed():
    assert [finding.name for finding in problems(aof=False, rdb=None)] == ["unknown"]
    assert [finding.name for finding in problems(used_memory_bytes=None, max_memory_bytes=8)] == ["unknown"]


def test_forbidden_commands_are_named_with_the_checks_that_need_them():
    [finding] = problems(policy="", aof=None, rdb=None, forbidden=("INFO", "CONFIG"))
    assert finding.severity is Severity.WARN
    assert finding.what == "this user may not call INFO, CONFIG, so these were not checked: maxmemory-policy, AOF, RDB"
    assert problems(forbidden=("HELLO",)) == []


def test_a_server_of_an_unknown_kind():
    [finding] = server_checks.check_forbidden(ServerInfo())
    assert finding.what == (
        "the server does not report everything, so these were not checked: "
        "version, role, maxmemory-policy, AOF, RDB, memory"
    )


class WithoutFlags:
    """Rejects scripts that have a shebang line."""

    def run(self, script, _keys):
        if script.text.startswith("#!"):
            raise RedisRefused("ERR unexpected symbol near '#'", code="ERR")


class WithoutScripts:
    def run(self, *_):
        raise RedisRefused("NOPERM this user has no permissions", code="NOPERM")


def test_a_server_without_script_flags_gets_scripts_without_them(monkeypatch):
    dropped = []
    monkeypatch.setattr(server_checks, "drop_flags", lambda: dropped.append(True))
    [finding] = check_scripts(WithoutFlags())
    assert finding.sentence.startswith(
        "script flags are not supported: workers cannot claim, retry or finish jobs while memory is full"
    )
    assert dropped == [True]


def test_a_server_without_scripts_is_refused():
    [finding] = check_scripts(WithoutScripts())
    assert finding.fatal
    assert finding.what.startswith("the server does not run Lua scripts for this user (NOPERM")


@pytest.mark.parametrize("version, older", [("", 6), ("6.5", 6), ("7.3.10", 7), ("8.1.7", None), ("0.1.0", None)])
def test_sidekiq_versions_that_cannot_read_our_format(version, older):
    findings = list(check_wire_version(8, {"ruby:1:ab": version}))
    assert [finding.actions[0].split(",")[0] for finding in findings] == (
        [f"set redis.wire_version = {older}"] if older else []
    )


def test_every_check_is_among_the_checks():
    named = {name for name in vars(server_checks) if name.startswith("check_")}
    assert {check.__name__ for check in (*SERVER_CHECKS, check_scripts, check_wire_version)} == named
