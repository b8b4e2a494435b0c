"""The judgements of the boot checks, on servers as they describe themselves."""

from __future__ import annotations

import json

import pytest

from offsider.core.errors import UnsupportedServer
from offsider.storage.server_info import ServerInfo
from offsider.worker import boot_checks

GOOD = {
    "kind": "redis",
    "version": (7, 0, 15),
    "mode": "standalone",
    "role": "master",
    "policy": "noeviction",
    "aof": True,
    "rdb": True,
    "used_memory": 1,
    "max_memory": 0,
}


def info(**changes):
    return ServerInfo(**(GOOD | changes))


def test_a_good_server_passes_without_a_word():
    for check in (boot_checks.check_mode, boot_checks.check_role, boot_checks.check_version):
        check(info(), "redis://h")
    for check in (
        boot_checks.check_policy,
        boot_checks.check_persistence,
        boot_checks.check_memory,
        boot_checks.check_forbidden,
    ):
        assert check(info()) is None


@pytest.mark.parametrize(
    "kind, version",
    [("redis", (6, 2, 7)), ("valkey", (7, 0)), ("dragonfly", (1, 26, 9))],
)
def test_an_old_server_is_refused(kind, version):
    with pytest.raises(UnsupportedServer, match=rf"redis://h is {kind} {'.'.join(map(str, version))}, .* too old"):
        boot_checks.check_version(info(kind=kind, version=version), "redis://h")


@pytest.mark.parametrize(
    "kind, version", [("redis", (7, 0)), ("redis", (8, 2)), ("valkey", (7, 2, 0)), ("dragonfly", (1, 27)), (None, None)]
)
def test_a_new_or_unknown_version_is_accepted(kind, version):
    boot_checks.check_version(info(kind=kind, version=version), "redis://h")


def test_a_cluster_a_sentinel_and_a_replica_are_refused():
    with pytest.raises(UnsupportedServer, match="is a Cluster"):
        boot_checks.check_mode(info(mode="cluster"), "redis://h")
    with pytest.raises(UnsupportedServer, match=r"put its address into redis\.sentinels"):
        boot_checks.check_mode(info(mode="sentinel"), "redis://h")
    with pytest.raises(UnsupportedServer, match="read-only replica"):
        boot_checks.check_role(info(role="replica"), "redis://h")


def test_risks_are_warned_about():
    assert "maxmemory-policy is allkeys-lru" in boot_checks.check_policy(info(policy="allkeys-lru"))
    assert "neither AOF nor RDB" in boot_checks.check_persistence(info(aof=False, rdb=False))
    assert "out of memory (9 of 8 bytes)" in boot_checks.check_memory(info(used_memory=9, max_memory=8))


def test_partly_known_persistence_gives_no_warning():
    assert boot_checks.check_persistence(info(aof=False, rdb=None)) is None
    assert boot_checks.check_persistence(info(aof=True, rdb=False)) is None
    assert boot_checks.check_memory(info(used_memory=None, max_memory=8)) is None


def test_forbidden_commands_are_named_with_the_checks_that_need_them():
    warning = boot_checks.check_forbidden(info(policy=None, aof=None, rdb=None, forbidden=("INFO", "CONFIG")))
    assert warning == "this user may not call INFO, CONFIG: not checked: maxmemory-policy, AOF, RDB"
    assert boot_checks.check_forbidden(info(forbidden=("HELLO",))) is None


def test_unregistered_names_are_listed():
    raws = [b'{"class":"Known","args":[]}', b'{"class":"B","args":[]}', b'{"class":"A","args":[]}', b"not json"]
    assert boot_checks.unregistered(raws * 2, {"Known"}) == ["A", "B"]


@pytest.mark.parametrize(
    "told, version",
    [
        ({"hostname": "h"}, 6),
        ({"version": "7.3.10"}, 7),
        ({"version": "8.1.7"}, 8),
        ({"version": "0.1.0"}, None),
        ([], None),
    ],
)
def test_which_sidekiq_a_process_is(told, version):
    assert boot_checks.wire_version_of(json.dumps(told).encode()) == version


def test_an_unreadable_info_has_no_wire_version():
    assert boot_checks.wire_version_of(b"{") is None
