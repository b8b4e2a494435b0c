"""The parts of redis-py that offsider depends on, at the level of packed commands (delivery rule 20).

redis-py calls some of them internal. A new release that changes one fails here, by name, and not in a worker.
"""

import asyncio
import inspect
import re
import socket
import threading
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
import redis
from redis._parsers import _HiredisParser, _RESP2Parser
from redis.asyncio.connection import AbstractConnection as AsyncConnection
from redis.backoff import NoBackoff
from redis.connection import AbstractConnection, Connection
from redis.retry import Retry

from offsider.storage.async_redis import AsyncRedis
from offsider.storage.redis import Redis, RedisSettings
from tests.waiting import wait_for

ROOT = Path(__file__).parents[2]


class OneReply:
    """A server that replies to any request with prepared bytes."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.received = bytearray()
        self._accepted = threading.Event()

    def __enter__(self):
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._accepted.wait()
        with suppress(OSError):
            self.peer.shutdown(socket.SHUT_RDWR)
        self.peer.close()
        self._listener.close()
        self._thread.join()

    def _serve(self):
        self.peer, _ = self._listener.accept()
        self._accepted.set()
        while data := self._receive():
            self.received += data

    def _receive(self) -> bytes:
        try:
            return self.peer.recv(65536)
        except OSError:
            return b""

    def say(self, data: bytes) -> None:
        self._accepted.wait()
        self.peer.sendall(data)


@pytest.fixture(params=[_HiredisParser, _RESP2Parser], ids=["hiredis", "python"])
def talk(request):
    """A server of the test's own and a connected connection to it, with both parsers."""
    with OneReply() as server:
        connection = Connection(
            host="127.0.0.1",
            port=server.port,
            protocol=2,
            parser_class=request.param,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=10,
            health_check_interval=0,
            driver_info=None,
        )
        connection.connect()
        yield server, connection
        connection.disconnect()


def test_the_pinned_versions_are_those_of_this_contract():
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert "redis>=8,<9" in dependencies
    assert re.match(r"8\.", redis.__version__)


def test_commands_are_packed_together_and_sent_without_a_health_check(talk):
    server, connection = talk
    connection.send_packed_command(connection.pack_commands([("PING",), ("SET", "k", b"\xff", 1)]), check_health=False)
    expected = b"*1\r\n$4\r\nPING\r\n*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n\xff\r\n$1\r\n1\r\n"
    wait_for(lambda: len(server.received) >= len(expected))
    assert bytes(server.received) == expected
    server.say(b"+PONG\r\n+OK\r\n")
    assert [connection.read_response(), connection.read_response()] == [b"PONG", b"OK"]


def test_can_read_returns_false_immediately(talk):
    _, connection = talk
    assert connection.is_connected
    assert connection.can_read(0) is False


def test_a_second_reply_in_the_buffer_can_be_read_though_the_socket_is_silent(talk):
    """select() does not see bytes that the parser has already read."""
    server, connection = talk
    server.say(b"+one\r\n+two\r\n")
    assert connection.can_read(10)
    assert connection.read_response() == b"one"
    assert connection.can_read(0)
    assert connection.read_response() == b"two"
    assert not connection.can_read(0)


def test_a_closed_socket_is_noticed_before_anything_is_sent(talk):
    server, connection = talk
    server.say(b"")
    server.peer.shutdown(socket.SHUT_WR)
    try:
        noticed = connection.can_read(10)
    except redis.ConnectionError:
        noticed = True
    assert noticed


def test_an_error_reply_is_raised_and_leaves_the_connection_open(talk):
    server, connection = talk
    server.say(b"-WRONGTYPE no list\r\n+fine\r\n")
    with pytest.raises(redis.ResponseError):
        connection.read_response()
    assert connection.is_connected
    assert connection.read_response() == b"fine"


def test_an_error_inside_an_array_is_an_element_of_it(talk):
    server, connection = talk
    server.say(b"*2\r\n+OK\r\n-WRONGTYPE no list\r\n")
    ok, error = connection.read_response()
    assert ok == b"OK"
    assert isinstance(error, redis.ResponseError)


def test_a_disconnected_connection_is_reported_and_can_reconnect(talk):
    _, connection = talk
    connection.disconnect()
    assert not connection.is_connected
    connection.disconnect()


@pytest.mark.parametrize("kind", [AbstractConnection, AsyncConnection])
def test_both_kinds_of_connections_have_the_required_methods(kind):
    for name in ("connect", "disconnect", "can_read", "read_response", "pack_commands", "send_packed_command"):
        assert callable(getattr(kind, name)), name
    assert "check_health" in inspect.signature(kind.send_packed_command).parameters
    assert "push_request" in inspect.signature(kind.read_response).parameters
    assert hasattr(kind, "is_connected")


def made_connection(pool: Redis):
    with pool.wire() as wire:
        return wire._connection


def test_our_connections_never_retry_check_health_or_listen_to_maintenance():
    """Eight is redis-py's first version that does all three by default."""
    pool = Redis(RedisSettings(url="redis://localhost:1"), size=1)
    connection = made_connection(pool)
    assert connection.retry.get_retries() == 0
    assert connection.health_check_interval == 0
    assert connection.protocol == 2
    maintenance = connection.maint_notifications_config
    assert maintenance is None or not maintenance.enabled
    assert connection.socket_timeout == 5
    assert not connection.is_connected, "only we connect"
    pool.close()


def test_asynchronous_connections_are_created_alike():
    asynchronous = AsyncRedis(RedisSettings(url="redis://localhost:1"), size=1)
    connection = asynchronous._factory().make_connection()
    assert connection.retry.get_retries() == 0
    assert connection.health_check_interval == 0
    assert connection.socket_timeout is None, "asyncio.timeout is ours"


def test_a_protocol_may_take_the_place_of_the_asynchronous_stream(embedded_url):
    """``storage/async_wire.py`` does, after redis-py has connected; redis-py's ``disconnect`` waits for the former."""

    async def take():
        connection = AsyncRedis(RedisSettings(url=embedded_url), size=1)._factory().make_connection()
        await connection.connect()
        transport = connection._writer.transport
        former = transport.get_protocol()
        transport.set_protocol(asyncio.Protocol())
        assert not connection._reader.at_eof()
        assert isinstance(connection._parser.parse_error("WRONGTYPE no"), redis.ResponseError)
        ended = asyncio.ensure_future(connection.disconnect())
        await asyncio.sleep(0)
        former.connection_lost(None)
        await ended

    asyncio.run(take())


def test_sending_on_a_dropped_connection_would_connect_silently(embedded_url):
    """Why `Wire` looks first: redis-py opens a new connection, under a new client id, without a word."""
    connection = made_connection(Redis(RedisSettings(url=embedded_url), size=1))
    assert not connection.is_connected
    connection.send_packed_command(connection.pack_command("PING"), check_health=False)
    assert connection.is_connected
    connection.disconnect()
