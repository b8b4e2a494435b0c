"""Sentinels tell where the master is; login and database come from the URL, its address does not count."""

import asyncio
import subprocess

import pytest
import redis as redis_py

from offsider.core.errors import RedisUnavailable
from offsider.embedded.address import free_port
from offsider.storage.async_redis import AsyncRedis
from offsider.storage.redis import Redis, RedisSettings
from tests.waiting import wait_for

NOWHERE = "redis://:secret@nowhere.invalid:1/3"


def answers(port: int) -> bool:
    with redis_py.Redis(port=port) as client:
        try:
            return bool(client.ping())
        except redis_py.ConnectionError:
            return False


@pytest.fixture
def sentinel(make_server, tmp_path):
    master = make_server(port=0, requirepass="secret")
    port = free_port()
    conf = tmp_path / "sentinel.conf"
    master_port = master.url.rpartition(":")[2].partition("/")[0]
    conf.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {tmp_path}\n"
        f"sentinel monitor orders 127.0.0.1 {master_port} 1\nsentinel auth-pass orders secret\n"
    )
    process = subprocess.Popen([master._binary, conf, "--sentinel"], stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: answers(port))
        yield f"127.0.0.1:{port}", master_port
    finally:
        process.kill()
        process.wait()


def test_the_master_is_found_and_gets_login_and_database_of_the_url(sentinel):
    address, port = sentinel
    settings = RedisSettings(url=NOWHERE, sentinels=(address,), sentinel_name="orders")
    pool = Redis(settings, size=1)
    assert pool.call("SET", "k", "v") == b"OK"
    pool.close()

    async def get():
        asynchronous = AsyncRedis(settings, size=1)
        try:
            return await asynchronous.call("GET", "k")
        finally:
            await asynchronous.close()

    assert asyncio.run(get()) == b"v"
    with redis_py.Redis(port=int(port), password="secret", db=3) as client:
        assert client.get("k") == b"v"


def test_a_master_that_nobody_knows_is_unavailable(sentinel):
    address, _ = sentinel
    pool = Redis(RedisSettings(url=NOWHERE, sentinels=(address,), sentinel_name="others"), size=1)
    with pytest.raises(RedisUnavailable) as failure:
        pool.call("PING")
    assert not failure.value.ambiguous


def test_messages_name_the_sentinels_and_no_password():
    settings = RedisSettings(url=NOWHERE, sentinels=("a:1", "b:2"), sentinel_name="orders")
    assert settings.redacted_url == "sentinel://a:1,b:2/orders"
