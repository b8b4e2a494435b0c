"""Parsing the INFO of each kind of server."""

from __future__ import annotations

import pytest

from offsider.core.errors import RedisRefused
from offsider.storage.server_info import ServerFacts, server_info

NOPERM = RedisRefused("NOPERM this user has no permissions", code="NOPERM")


class FakeRedis:
    cluster_place = ""

    def __init__(self, *replies):
        self.replies = list(replies)

    def pipeline(self, commands, *, raise_errors):
        assert raise_errors is False
        return self.replies


def hello(**fields):
    return [item for name, value in fields.items() for item in (name.encode(), value)]


INFO = b"""# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nuptime_in_days:3\r\nconnected_clients:7\r\n
# Memory\r\nused_memory:100\r\nused_memory_peak:120\r\nmaxmemory:50\r\nmaxmemory_policy:noeviction\r\n
# Persistence\r\naof_enabled:1\r\n# Replication\r\nrole:master\r\n"""


def test_a_redis_with_all_permissions():
    answer = server_info(
        FakeRedis(
            hello(server=b"redis", version=b"7.0.15", proto=2), INFO, [b"save", b"3600 1"], [b"appendfsync", b"no"], []
        )
    )
    assert answer == ServerFacts(
        kind="redis",
        version=(7, 0, 15),
        mode="standalone",
        role="master",
        policy="noeviction",
        aof=True,
        rdb=True,
        used_memory=100,
        max_memory=50,
        used_memory_peak=120,
        uptime_days=3,
        connected_clients=7,
        fsync="no",
    )
    assert answer.version_text == "7.0.15"


def test_hello_alone_is_enough_to_judge():
    replies = hello(server=b"redis", version=b"7.2.1", mode=b"cluster", role=b"replica", modules=[])
    answer = server_info(FakeRedis(replies, NOPERM, NOPERM, NOPERM, NOPERM))
    assert answer == ServerFacts("redis", (7, 2, 1), "cluster", "replica", forbidden=("INFO", "CONFIG"))


@pytest.mark.parametrize(
    "lines, kind, version",
    [
        (b"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2", "valkey", (9, 1, 2)),
        (b"redis_version:7.4.0\r\ndragonfly_version:df-v1.27.1", "dragonfly", (1, 27, 1)),
        (b"redis_version:8.0-rc1", "redis", (8, 0)),
        (b"", None, None),
    ],
)
def test_kinds_and_their_own_versions(lines, kind, version):
    answer = server_info(FakeRedis(NOPERM, lines, [b"save", b""], [], []))
    assert (answer.kind, answer.version, answer.rdb) == (kind, version, False)


def test_an_old_servers_word_for_a_replica():
    assert server_info(FakeRedis(NOPERM, b"role:slave", NOPERM, NOPERM, NOPERM)).role == "replica"


def test_without_permissions_all_values_are_unknown():
    assert server_info(FakeRedis(*[NOPERM] * 5)) == ServerFacts(forbidden=("HELLO", "INFO", "CONFIG"))


def test_a_refused_login_is_raised():
    with pytest.raises(RedisRefused):
        server_info(FakeRedis(RedisRefused("NOAUTH Authentication required.", code="NOAUTH"), *[NOPERM] * 4))
