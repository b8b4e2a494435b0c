"""One connection of an event loop: whatever happens to a request, the next one gets its own reply."""

import asyncio
import gc
import os
import select
import signal
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
import redis as redis_py
from redis.asyncio.connection import _AsyncRESP2Parser

from offsider.core.errors import RedisRefused, RedisUnavailable
from offsider.storage import async_redis, async_wire
from offsider.storage.async_redis import AsyncRedis
from offsider.storage.async_wire import AsyncWire
from offsider.storage.redis import RedisSettings

PATIENT = 30.0  # the machine may be busy
LARGE = os.urandom(5_000_000) * 2


@asynccontextmanager
async def wire_to(url: str, **given: object) -> AsyncIterator[AsyncWire]:
    settings = {"url": url, "socket_timeout_seconds": PATIENT}
    pool = AsyncRedis(RedisSettings(**settings | given), size=1)
    wire = AsyncWire(pool._factory().make_connection, pool.settings)
    try:
        yield wire
    finally:
        await wire.close()


def run(url: str, use, **given):
    """Call ``use(wire)`` on an event loop of its own."""

    async def on_a_loop():
        async with wire_to(url, **given) as wire:
            return await use(wire)

    return asyncio.run(on_a_loop())


@pytest.fixture(params=["hiredis", "python"])
def reader(request, monkeypatch):
    """Both readers: hiredis is an extra."""
    if request.param == "python":

        def missing(name):
            raise ImportError(name)

        options = async_redis.connection_options
        monkeypatch.setattr(async_wire.importlib, "import_module", missing)
        monkeypatch.setattr(
            async_redis,
            "connection_options",
            lambda *given, **named: options(*given, **named) | {"parser_class": _AsyncRESP2Parser},
        )


class Scripted:
    """A server on the loop of the test. It completes the handshake, then calls ``play(writer)`` for each request."""

    def __init__(self, play, *, handshake: bool = True) -> None:
        self._play = play
        self._handshake = handshake
        self._tasks = []
        self.connections = self.ended = 0

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"redis://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/0"
        return self

    async def __aexit__(self, *_):
        self._server.close()
        await asyncio.gather(*self._tasks)

    async def _serve(self, reader, writer):
        self._tasks.append(asyncio.current_task())
        self.connections += 1
        with suppress(ConnectionError):
            while head := await reader.readline():
                name, *_ = [await self._argument(reader) for _ in range(int(head[1:]))]
                if name == b"CLIENT" and self._handshake:
                    writer.write(b"+OK\r\n")
                else:
                    await self._play(writer)
        self.ended += 1
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async def _argument(self, reader):
        length = int((await reader.readline())[1:])
        return (await reader.readexactly(length + 2))[:-2]


def play(script, use, **given):
    """Call ``use(wire, server)``, with a server that plays ``script``."""

    async def on_a_loop():
        async with Scripted(script) as server, wire_to(server.url, **given) as wire, asyncio.timeout(PATIENT):
            return await use(wire, server)

    return asyncio.run(on_a_loop())


def drop(objects: list[object]) -> None:
    objects.clear()
    gc.collect()


async def until(condition) -> None:
    async with asyncio.timeout(PATIENT):
        while not condition():  # noqa: ASYNC110 - the loop has to see it first
            await asyncio.sleep(0)


# ------------------------------------------------------------------------------------- replies


def test_every_kind_of_reply_arrives(redis_url, tag, reader):
    commands = [
        ("SET", f"{tag}k", 1),
        ("GET", f"{tag}k"),
        ("GET", f"{tag}none"),
        ("INCR", f"{tag}k"),
        ("LPUSH", f"{tag}k", 1),
        ("RPUSH", f"{tag}l", "", b"\xff\r\n"),
        ("LRANGE", f"{tag}l", 0, -1),
        ("LRANGE", f"{tag}none", 0, -1),
    ]
    replies = run(redis_url, lambda wire: wire.exchange(commands, None))
    assert isinstance(replies[4], RedisRefused)
    assert replies[4].code == "WRONGTYPE"
    assert [*replies[:4], *replies[5:]] == [b"OK", b"1", None, 2, 2, [b"", b"\xff\r\n"], []]


def test_replies_may_arrive_in_any_pieces(reader):
    whole = b"*2\r\n$3\r\nabc\r\n:12\r\n"

    async def bytewise(writer):
        for place in range(len(whole)):
            writer.write(whole[place : place + 1])
            await writer.drain()
            await asyncio.sleep(0)

    async def use(wire, server):
        return await wire.exchange([("A",), ("B",)], None)

    assert play(bytewise, use) == [[b"abc", 12]] * 2


@pytest.mark.parametrize("where", ["unix", "tcp", "tls"])
def test_ten_megabytes_in_both_directions(where, make_server, request, reader):
    given = {}
    if where == "tls":
        server = request.getfixturevalue("tls_server")
        given["tls_ca_file"] = str(server.ca_file)
    else:
        server = make_server(port=0) if where == "tcp" else make_server()

    async def use(wire):
        commands = [("SET", "k", LARGE), ("GET", "k"), ("DEL", "k"), ("ECHO", "small")]
        return [await wire.exchange(commands, None) for _ in range(2)]

    assert run(server.url, use, **given) == [[b"OK", LARGE, 1, b"small"]] * 2


def test_a_hundred_thousand_replies(redis_url, reader):
    many = run(redis_url, lambda wire: wire.exchange([("ECHO", n) for n in range(100_000)], None))
    assert many == [b"%d" % n for n in range(100_000)]


# ----------------------------------------------------------------------------- cancel and time out


def test_a_canceled_push_that_is_half_sent_leaves_nothing_behind(make_server):
    """Neither its rest nor its reply: the server gets the next request on another connection."""
    server = make_server(port=0)

    async def use(wire):
        await wire.exchange([("PING",)], None)
        transport = wire._replies._transport
        os.kill(server.pid, signal.SIGSTOP)
        try:
            push = asyncio.ensure_future(wire.exchange([("SET", "k", LARGE * 3)], None))
            await until(transport.get_write_buffer_size)
            push.cancel()
            with pytest.raises(asyncio.CancelledError):
                await push
            assert transport.get_write_buffer_size() == 0
        finally:
            os.kill(server.pid, signal.SIGCONT)
        return await wire.exchange([("EXISTS", "k"), ("ECHO", "new")], None)

    assert run(server.url, use) == [0, b"new"]


def test_canceled_when_the_reply_has_arrived_the_next_request_gets_its_own(redis_url, tag):
    async def use(wire):
        await wire.exchange([("PING",)], None)
        request = asyncio.ensure_future(wire.exchange([("ECHO", "old")], None))
        await until(lambda: wire._replies is not None and wire._replies._waiter is not None)
        waiter = wire._replies._waiter
        waiter.add_done_callback(lambda _: request.cancel())  # before the task resumes
        with suppress(asyncio.CancelledError):
            await request
        return await wire.exchange([("ECHO", "new")], None)

    assert run(redis_url, use) == [b"new"]


def test_requests_with_earlier_and_later_deadlines_share_a_timer(make_server):
    server = make_server(port=0)

    async def use(wire):
        now = asyncio.get_running_loop().time
        await wire.exchange([("PING",)], now() + 600)
        with pytest.raises(RedisUnavailable, match="no reply in time") as failure:
            await wire.exchange([("BLPOP", "never", 0)], now() + 0.1)
        assert failure.value.ambiguous
        await wire.exchange([("PING",)], now() + 0.1)
        return await wire.exchange([("BLPOP", "never", 0.3)], now() + PATIENT)  # longer than the one before

    assert run(server.url, use) == [None]


def test_without_a_deadline_each_part_of_the_replies_starts_the_timeout_again():
    async def slow(writer):
        for piece in (b"*4\r\n", b":1\r\n", b":2\r\n", b":3\r\n", b":4\r\n"):
            writer.write(piece)
            await asyncio.sleep(0.3)  # together longer than the timeout

    async def use(wire, server):
        return await wire.exchange([("A",)], None)

    assert play(slow, use, socket_timeout_seconds=1) == [[1, 2, 3, 4]]


def test_a_server_that_accepts_and_never_replies_is_not_ambiguous():
    async def never(writer):
        pass

    timeouts = {"socket_timeout_seconds": 0.15}

    async def on_a_loop(deadline):
        async with Scripted(never, handshake=False) as server, wire_to(server.url, **timeouts) as wire:
            await wire.exchange([("A",)], deadline)

    in_time = time.monotonic() + 0.1
    for deadline, message in ((in_time, "no connection in time"), (None, r"no connection within 0\.3 s")):
        with pytest.raises(RedisUnavailable, match=message) as failure:
            asyncio.run(on_a_loop(deadline))
        assert not failure.value.ambiguous


# ------------------------------------------------------------------------- the end of a connection


@pytest.mark.parametrize("before", [b"", b"+OK\r\n$3\r\na"], ids=["nothing", "a part"])
def test_a_connection_that_ends_during_a_request_fails_it_at_once(before, reader):
    async def close(writer):
        writer.write(before)
        writer.close()

    async def use(wire, server):
        with pytest.raises(RedisUnavailable, match="closed") as failure:
            await wire.exchange([("A",), ("B",)], None)
        return failure.value.ambiguous

    assert play(close, use)


def test_an_idle_connection_that_ended_is_replaced_over_tls(tls_server):
    async def use(wire):
        ((first,), killed) = await wire.exchange([("CLIENT", "ID")], None), wire._replies
        with redis_py.Redis.from_url(tls_server.url, ssl_ca_certs=str(tls_server.ca_file)) as other:
            assert other.client_kill_filter(_id=first) == 1
        await until(lambda: not killed.is_open)
        assert await wire.exchange([("CLIENT", "ID")], None) > [first]

    run(tls_server.url, use, tls_ca_file=str(tls_server.ca_file))


@pytest.mark.parametrize("where", ["tcp", "tls"])
def test_a_connection_that_ended_while_the_loop_was_blocked_is_replaced(where, make_server, request, monkeypatch):
    """The same happens between two calls of ``run_until_complete``: the protocol has not been told of the end."""
    monkeypatch.setattr(async_wire, "MAX_IDLE_SECONDS", 0)
    given = {}
    if where == "tls":
        server = request.getfixturevalue("tls_server")
        given["tls_ca_file"] = str(server.ca_file)
    else:
        server = make_server(port=0)

    async def use(wire):
        (first,) = await wire.exchange([("CLIENT", "ID")], None)
        options = {"ssl_ca_certs": given["tls_ca_file"]} if given else {}
        with redis_py.Redis.from_url(server.url, **options) as other:
            assert other.client_kill_filter(_id=first) == 1
        ended, _, _ = select.select([wire._replies._transport.get_extra_info("socket")], [], [], PATIENT)
        assert ended
        assert wire._replies.is_open  # as far as the loop knows
        second = await wire.exchange([("CLIENT", "ID")], None)
        assert second > [first]
        assert await wire.exchange([("CLIENT", "ID")], None) == second

    run(server.url, use, **given)


def test_a_connection_whose_socket_is_closed_already_is_replaced(redis_url, monkeypatch):
    monkeypatch.setattr(async_wire, "MAX_IDLE_SECONDS", 0)

    async def use(wire):
        (first,) = await wire.exchange([("CLIENT", "ID")], None)
        wire._replies._transport.abort()
        monkeypatch.setattr(wire._replies, "_transport", asyncio.Transport())  # it has no socket, as one over TLS
        monkeypatch.setattr(asyncio.Transport, "abort", lambda _: None)
        assert await wire.exchange([("CLIENT", "ID")], None) > [first]

    run(redis_url, use)


def test_a_connection_that_ended_in_the_handshake_is_not_used(redis_url, monkeypatch):
    """redis-py's stream was told of it, and the protocol after it is not."""

    async def use(wire):
        connect = wire._connection.connect

        async def connect_and_end():
            await connect()
            wire._connection._reader.feed_eof()

        monkeypatch.setattr(wire._connection, "connect", connect_and_end)
        with pytest.raises(RedisUnavailable, match="closed") as failure:
            await wire.exchange([("PING",)], None)
        assert not failure.value.ambiguous
        monkeypatch.undo()
        return await wire.exchange([("PING",)], None)

    assert run(redis_url, use) == [b"PONG"]


@pytest.mark.parametrize("idle", [True, False])
def test_a_reply_that_no_request_waits_for_ends_the_connection(idle, reader):
    async def twice(writer):
        writer.write(b":1\r\n" if idle else b":1\r\n:2\r\n")
        await writer.drain()
        if idle:
            asyncio.get_running_loop().call_later(0.01, writer.write, b":2\r\n")

    async def use(wire, server):
        replies = []
        for _ in range(3):
            replies += await wire.exchange([("A",)], None)
            receiver = wire._replies
            await until(lambda: not receiver.is_open)  # noqa: B023 - it ends before the next round
        return replies, server.connections

    assert play(twice, use) == ([1, 1, 1], 3)


def test_what_is_not_the_protocol_of_redis_is_refused(reader):
    async def web(writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async def use(wire, server):
        with pytest.raises(RedisRefused, match="is not a Redis server"):
            await wire.exchange([("A",)], None)
        assert wire._replies is None

    play(web, use)


def test_a_server_that_loads_its_data_is_unavailable_and_the_push_not_ambiguous(reader):
    async def loading(writer):
        writer.write(b"-LOADING Redis is loading the dataset in memory\r\n")

    async def use(wire, server):
        with pytest.raises(RedisUnavailable, match="still loading") as failure:
            await wire.exchange([("A",)], None)
        assert not failure.value.ambiguous
        assert wire._replies is None

    play(loading, use)


def test_a_wire_that_is_dropped_closes_its_connection():
    """A program may make a configuration, and drop it without closing."""

    async def reply(writer):
        writer.write(b":1\r\n")

    async def on_a_loop():
        async with Scripted(reply) as server:
            pool = AsyncRedis(RedisSettings(url=server.url), size=1)
            await pool.call("A")
            pools = [pool]
            del pool
            with pytest.warns(ResourceWarning, match="unclosed"):
                drop(pools)
            await until(lambda: server.ended)

    asyncio.run(on_a_loop())


def test_a_certificate_that_is_not_trusted_is_not_ambiguous(tls_server):
    with pytest.raises(RedisUnavailable, match=r"(?i)certificate") as failure:
        run(tls_server.url, lambda wire: wire.exchange([("PING",)], None))
    assert not failure.value.ambiguous
    assert not isinstance(failure.value, ssl.SSLError)


# --------------------------------------------------------------------------------- loops and forks


def test_a_forked_child_and_its_parent_have_connections_of_their_own(redis_url, raw_redis, tag):
    redis = AsyncRedis(RedisSettings(url=redis_url), size=1)

    async def push(times):
        return [await redis.call("RPUSH", f"{tag}l", os.getpid()) for _ in range(times)]

    async def parent():
        await push(10)
        child = os.fork()
        if child == 0:
            status = 1
            with suppress(BaseException):
                asyncio.run(push(100))
                status = 0
            os._exit(status)
        lengths = await push(100)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        await redis.close()
        return lengths, status

    lengths, status = asyncio.run(parent())
    assert status == 0
    assert lengths == sorted(set(lengths))
    assert raw_redis.llen("l") == 210
