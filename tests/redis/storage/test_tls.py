"""TLS, with the server's certificate checked, and with one of our own."""

import asyncio

import pytest
import redis as redis_py

from offsider.core.errors import RedisUnavailable
from offsider.storage.async_redis import AsyncRedis
from offsider.storage.redis import Redis, RedisSettings
from tests.redis.storage.every_verb import seed, walk

pytestmark = pytest.mark.needs("openssl", "redis-server")


def call(settings: RedisSettings) -> bytes:
    pool = Redis(settings, size=1)
    try:
        return pool.call("PING")
    finally:
        pool.close()


def call_asynchronously(settings: RedisSettings) -> bytes:
    async def on_a_loop() -> bytes:
        redis = AsyncRedis(settings, size=1)
        try:
            return await redis.call("PING")
        finally:
            await redis.close()

    return asyncio.run(on_a_loop())


@pytest.fixture(params=[call, call_asynchronously], ids=["sync", "async"])
def ping(request):
    return request.param


def test_the_certificate_authority_has_to_be_trusted(tls_server, ping):
    assert ping(RedisSettings(url=tls_server.url, tls_ca_file=str(tls_server.ca_file))) == b"PONG"
    with pytest.raises(RedisUnavailable, match=r"(?i)certificate") as failure:
        ping(RedisSettings(url=tls_server.url))
    assert not failure.value.ambiguous


def test_the_check_can_be_switched_off(tls_server, ping):
    assert ping(RedisSettings(url=tls_server.url, tls_verify=False)) == b"PONG"


def test_a_certificate_of_the_client_is_shown(tls_server, ping):
    settings = RedisSettings(
        url=tls_server.url,
        tls_ca_file=str(tls_server.ca_file),
        tls_cert_file=str(tls_server.cert_file),
        tls_key_file=str(tls_server.key_file),
    )
    assert ping(settings) == b"PONG"


def test_every_verb_works_over_tls(tls_server):
    pool = Redis(RedisSettings(url=tls_server.url, tls_ca_file=str(tls_server.ca_file)), size=2)
    with redis_py.Redis.from_url(tls_server.url, ssl_ca_certs=str(tls_server.ca_file)) as client:
        seed(client, pool.keys)
    walk(pool)
    pool.close()
