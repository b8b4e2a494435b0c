"""The server fixtures of the other tests work as documented."""

from __future__ import annotations

import redis

from tests.snapshot import snapshot


def test_each_test_gets_an_empty_server_of_both_kinds(server, raw_redis, request):
    assert snapshot(raw_redis) == {}
    raw_redis.set("left", "behind")
    is_valkey = "valkey_version" in raw_redis.info("server")
    assert is_valkey == ("valkey" in request.node.name)


def test_a_second_server_has_its_own_configuration(make_server):
    server = make_server(maxmemory="3mb", requirepass="secret")
    with redis.Redis.from_url(server.url, password="secret") as client:
        assert client.config_get("maxmemory") == {"maxmemory": str(3 * 1024 * 1024)}


def test_the_tls_server_shows_a_certificate_of_its_authority(tls_server):
    with redis.Redis.from_url(tls_server.url, ssl_ca_certs=str(tls_server.ca_file)) as client:
        assert client.ping()


def test_a_snapshot_shows_every_type(raw_redis):
    raw_redis.rpush("list", "a", "b")
    raw_redis.sadd("set", "a")
    raw_redis.zadd("zset", {"a": 1.5})
    raw_redis.hset("hash", "f", "v")
    raw_redis.set("string", "s")
    assert snapshot(raw_redis) == {
        "hash": {b"f": b"v"},
        "list": [b"a", b"b"],
        "set": {b"a"},
        "string": b"s",
        "zset": {b"a": 1.5},
    }
