"""Sentinels give the address of the master; the URL gives login and database, and its address is ignored."""

import asyncio
import socket
import subprocess
import time

import pytest
import redis as redis_py

from offsider.client import Client
from offsider.config.config import Config
from offsider.core.errors import ConfigurationError, OffsiderError, RedisUnavailable
from offsider.embedded.folder import free_port
from offsider.storage.redis import RedisSettings
from tests.waiting import wait_for

NOWHERE = "redis://:secret@nowhere.invalid:1/3"
ORDERS = {"url": NOWHERE, "sentinel_name": "orders"}


def answers(port: int, password: str) -> bool:
    with redis_py.Redis(port=port, password=password or None) as client:
        try:
            return bool(client.ping())
        except redis_py.ConnectionError:
            return False


@pytest.fixture
def password(request) -> str:
    return getattr(request, "param", "")


@pytest.fixture
def sentinel(make_server, tmp_path, password):
    master = make_server(port=0, requirepass="secret")
    port = free_port()
    conf = tmp_path / "sentinel.conf"
    master_port = master.url.rpartition(":")[2].partition("/")[0]
    conf.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {tmp_path}\n"
        f"sentinel monitor orders 127.0.0.1 {master_port} 1\nsentinel auth-pass orders secret\n"
    )
    if password:
        conf.write_text(conf.read_text() + f"requirepass {password}\n")
    process = subprocess.Popen([master._binary, conf, "--sentinel"], stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: answers(port, password))
        yield f"127.0.0.1:{port}", master_port
    finally:
        process.kill()
        process.wait()


def test_the_master_is_found_and_gets_login_and_database_of_the_url(sentinel, make_pool):
    address, port = sentinel
    assert make_pool(**ORDERS, sentinels=(address,)).call("SET", "k", "v") == b"OK"
    with redis_py.Redis(port=int(port), password="secret", db=3) as client:
        assert client.get("k") == b"v"


def test_an_asynchronous_push_that_a_demoted_master_refuses_is_sent_again(sentinel):
    """The Sentinel is asked again, which names the master that accepts it."""
    address, port = sentinel
    config = Config()
    config.redis.url, config.redis.sentinels, config.redis.sentinel_name = NOWHERE, (address,), "orders"
    client = Client(config)

    async def push():
        await client.apush({"class": "X", "args": []})
        (wire,) = [wire for wire in client.redis._free if wire is not None]
        connect, connects = wire._connection.connect, []

        def promoted():
            connects.append(1)
            master.execute_command("REPLICAOF", "NO", "ONE")
            connect()

        wire._connection.connect = promoted
        master.execute_command("REPLICAOF", "127.0.0.1", "1")
        await client.apush({"class": "X", "args": []})
        client.close()
        return len(connects)

    with redis_py.Redis(port=int(port), password="secret", db=3) as master:
        assert asyncio.run(push()) == 1
        assert master.llen("queue:default") == 2


def test_an_unknown_master_is_unavailable(sentinel, make_pool):
    address, _ = sentinel
    with pytest.raises(RedisUnavailable) as failure:
        make_pool(url=NOWHERE, sentinels=(address,), sentinel_name="others").call("PING")
    assert not failure.value.ambiguous


def test_messages_name_the_sentinels_and_no_password():
    settings = RedisSettings(**ORDERS, sentinels=("a:1", "b:2"))
    assert settings.redacted_url == "sentinel://a:1,b:2/orders"


@pytest.mark.parametrize("password", ["watchword"], indirect=True)
def test_sentinels_may_have_a_password_of_their_own(sentinel, password, make_pool):
    address, _ = sentinel
    assert make_pool(**ORDERS, sentinels=(address,), sentinel_password=password).call("PING") == b"PONG"
    with pytest.raises(OffsiderError):
        make_pool(**ORDERS, sentinels=(address,)).call("PING")


def test_a_silent_sentinel_costs_one_connect_timeout_and_is_passed_over(sentinel, make_pool):
    """A sentinel that accepts and never replies, like a frozen host, must not use up a liveness lifetime."""
    address, _ = sentinel
    with socket.create_server(("127.0.0.1", 0)) as silent:
        frozen = f"127.0.0.1:{silent.getsockname()[1]}"
        brief = {**ORDERS, "socket_timeout_seconds": 0.5}
        started = time.monotonic()
        assert make_pool(**brief, sentinels=(frozen, address)).call("PING") == b"PONG"
        with pytest.raises(RedisUnavailable, match="no Sentinel returned a master"):
            make_pool(**brief, sentinels=(frozen,)).call("PING")
        assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    "given, key",
    [
        ({"sentinels": ("a",), "sentinel_name": "orders"}, "redis.sentinels"),
        ({"sentinels": ("a:1",)}, "redis.sentinel_name"),
    ],
)
def test_wrong_settings_are_named_by_their_own_key(make_pool, given, key):
    with pytest.raises(ConfigurationError, match=rf"^{key}: "):
        make_pool(**given).call("PING")
