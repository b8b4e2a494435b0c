"""Parsing the INFO of each kind of server."""

from __future__ import annotations

import pytest

from offsider.core.errors import RedisRefused
from offsider.inspector.server_info import ServerInfo
from offsider.storage.redis import RedisSettings

NOPERM = RedisRefused("NOPERM this user has no permissions", code="NOPERM")


class FakeRedis:
    cluster_place = ""
    settings = RedisSettings()

    def __init__(self, *replies):
        self.replies = list(replies)

    def pipeline(self, commands, *, raise_errors):
        assert raise_errors is False
        return self.replies


def ask(*replies):
    return ServerInfo.ask(FakeRedis(*replies))


def hello(**fields):
    return [item for name, value in fields.items() for item in (name.encode(), value)]


INFO = b"""# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nuptime_in_days:3\r\nconnected_clients:7\r\n
# Memory\r\nused_memory:100\r\nused_memory_peak:120\r\nmaxmemory:50\r\nmaxmemory_policy:noeviction\r\n
# Persistence\r\naof_enabled:1\r\n# Replication\r\nrole:master\r\n"""


def test_a_redis_with_all_permissions():
    answer = ask(
        hello(server=b"redis", version=b"7.0.15", proto=2), INFO, [b"save", b"3600 1"], [b"appendfsync", b"no"], []
    )
    assert answer == ServerInfo(
        store="redis",
        version_info=(7, 0, 15),
        mode="standalone",
        role="master",
        policy="noeviction",
        aof=True,
        rdb=True,
        used_memory_bytes=100,
        max_memory_bytes=50,
        used_memory_peak_bytes=120,
        uptime_days=3,
        connected_clients=7,
        fsync="no",
    )
    assert answer.version == "7.0.15"


def test_hello_alone_is_enough_to_judge():
    replies = hello(server=b"redis", version=b"7.2.1", mode=b"cluster", role=b"replica", modules=[])
    answer = ask(replies, NOPERM, NOPERM, NOPERM, NOPERM)
    assert answer == ServerInfo(
        store="redis", version_info=(7, 2, 1), mode="cluster", role="replica", forbidden=("INFO", "CONFIG")
    )


@pytest.mark.parametrize(
    "lines, kind, version",
    [
        (b"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2", "valkey", (9, 1, 2)),
        (b"redis_version:7.4.0\r\ndragonfly_version:df-v1.27.1", "dragonfly", (1, 27, 1)),
        (b"redis_version:8.0-rc1", "redis", (8, 0)),
        (b"", "", ()),
    ],
)
def test_kinds_and_their_own_versions(lines, kind, version):
    answer = ask(NOPERM, lines, [b"save", b""], [], [])
    assert (answer.store, answer.version_info, answer.rdb) == (kind, version, False)


def test_an_old_servers_word_for_a_replica():
    assert ask(NOPERM, b"role:slave", NOPERM, NOPERM, NOPERM).role == "replica"


def test_without_permissions_all_values_are_unknown():
    assert ask(*[NOPERM] * 5) == ServerInfo(forbidden=("HELLO", "INFO", "CONFIG"))


def test_a_refused_login_is_raised():
    with pytest.raises(RedisRefused):
        ask(RedisRefused("NOAUTH Authentication required.", code="NOAUTH"), *[NOPERM] * 4)
