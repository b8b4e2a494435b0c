"""The parts of redis-py that offsider depends on, at the level of packed commands (delivery rule 20).

redis-py calls some of them internal. A new release that changes one fails here, by name, and not in a worker.
"""

import re
import socket
import threading
import tomllib
from contextlib import suppress
from pathlib import Path

import hiredis
import pytest
import redis
from redis._parsers import _HiredisParser, _RESP2Parser
from redis.backoff import NoBackoff
from redis.connection import Connection
from redis.retry import Retry

from offsider.storage.redis import LARGE_BYTES, Redis, RedisSettings, packer
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
    connection._sock.sendall(b"".join(connection.pack_commands([("PING",), ("SET", "k", b"\xff", 1)])))
    expected = b"*1\r\n$4\r\nPING\r\n*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n\xff\r\n$1\r\n1\r\n"
    wait_for(lambda: len(server.received) >= len(expected))
    assert bytes(server.received) == expected
    server.say(b"+PONG\r\n+OK\r\n")
    assert [connection._parser.read_response(), connection._parser.read_response()] == [b"PONG", b"OK"]


@pytest.mark.parametrize("size_bytes", [1, LARGE_BYTES])
def test_large_arguments_are_packed_as_hiredis_packs_small_ones(size_bytes):
    command = ("SET", "größe", b"\xff" * size_bytes, 1, 2.5, "")
    assert packer(None)([command, ("PING",)]) == hiredis.pack_command(command) + b"*1\r\n$4\r\nPING\r\n"


def test_can_read_returns_false_immediately(talk):
    _, connection = talk
    assert connection.is_connected
    assert connection.can_read(0) is False


def test_a_second_reply_in_the_buffer_can_be_read_though_the_socket_is_silent(talk):
    """select() does not see bytes that the parser has already read."""
    server, connection = talk
    server.say(b"+one\r\n+two\r\n")
    assert connection.can_read(10)
    assert connection._parser.read_response() == b"one"
    assert connection.can_read(0)
    assert connection._parser.read_response() == b"two"
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


def test_an_error_reply_is_returned_and_leaves_the_connection_open(talk):
    server, connection = talk
    server.say(b"-WRONGTYPE no list\r\n+fine\r\n")
    assert isinstance(connection._parser.read_response(), redis.ResponseError)
    assert connection.is_connected
    assert connection._parser.read_response() == b"fine"


def test_an_error_inside_an_array_is_an_element_of_it(talk):
    server, connection = talk
    server.say(b"*2\r\n+OK\r\n-WRONGTYPE no list\r\n")
    ok, error = connection._parser.read_response()
    assert ok == b"OK"
    assert isinstance(error, redis.ResponseError)


def test_a_disconnected_connection_is_reported_and_can_reconnect(talk):
    _, connection = talk
    connection.disconnect()
    assert not connection.is_connected
    connection.disconnect()


def test_our_connections_never_retry_check_health_or_listen_to_maintenance():
    """Eight is redis-py's first version that does all three by default."""
    pool = Redis(RedisSettings(url="redis://localhost:1"), size=1)
    connection = pool.own_wire()._connection
    assert connection.retry.get_retries() == 0
    assert connection.health_check_interval == 0
    assert connection.protocol == 2
    maintenance = connection.maint_notifications_config
    assert maintenance is None or not maintenance.enabled
    assert connection.socket_timeout == 5
    assert not connection.is_connected, "only we connect"
    pool.close()


def test_sending_on_a_dropped_connection_would_connect_silently(embedded_url):
    """Why `Wire` looks first: redis-py opens a new connection, under a new client id, without a word."""
    connection = Redis(RedisSettings(url=embedded_url), size=1).own_wire()._connection
    assert not connection.is_connected
    connection.send_packed_command(connection.pack_command("PING"), check_health=False)
    assert connection.is_connected
    connection.disconnect()
