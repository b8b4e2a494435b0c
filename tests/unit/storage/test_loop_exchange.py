"""A request of an event loop: sent and read in pieces, without blocking the loop."""

import asyncio
import socket
from types import SimpleNamespace

import pytest
from redis.connection import DefaultParser
from redis.exceptions import BusyLoadingError

from offsider.storage.loop_exchange import LoopExchange, can_exchange
from offsider.storage.redis import _FastReplies

LARGE = b"x" * 2_000_000


@pytest.fixture
def ends():
    ours, server = socket.socketpair()
    yield ours, server
    ours.close()
    server.close()


def exchange(ours, number):
    def receive():
        data = ours.recv(100)
        if not data:
            raise ConnectionError("closed")
        return data.splitlines()

    return LoopExchange(ours, receive, number)


def test_a_large_request_and_replies_in_pieces(ends):
    ours, server = ends
    ours.settimeout(5)
    made = None

    async def serve():
        server.setblocking(False)
        loop, received = asyncio.get_running_loop(), 0
        while received < len(LARGE):
            received += len(await loop.sock_recv(server, 65_536))
        await loop.sock_sendall(server, b"one\ntwo\n")
        while not made._replies:  # noqa: ASYNC110 - an event would be set by the code under test
            await asyncio.sleep(0)
        await loop.sock_sendall(server, b"three\n")

    async def run():
        nonlocal made
        made = exchange(ours, 3)
        replies, _ = await asyncio.gather(made.run(LARGE, 30, TimeoutError()), serve())
        return replies

    assert asyncio.run(run()) == [b"one", b"two", b"three"]


def test_a_server_that_does_not_read_blocks_no_loop(ends):
    late = TimeoutError("late")

    async def run():
        made = exchange(ends[0], 1)
        running = asyncio.ensure_future(made.run(LARGE, 0.05, late))
        await asyncio.sleep(0)
        made._send()
        with pytest.raises(TimeoutError) as failure:
            await running
        return failure.value

    assert asyncio.run(run()) is late


@pytest.mark.parametrize("request_", [b"x", LARGE])
def test_a_closed_connection_raises(ends, request_):
    ours, server = ends

    async def run():
        asyncio.get_running_loop().call_later(0.01, server.close)
        await exchange(ours, 1).run(request_, 30, TimeoutError())

    with pytest.raises(OSError):
        asyncio.run(run())


def test_a_wake_up_without_data_and_a_late_timer_change_nothing(ends):
    ours, server = ends

    async def run():
        made = exchange(ours, 1)
        running = asyncio.ensure_future(made.run(b"x", 30, TimeoutError()))
        await asyncio.sleep(0)
        made._receive()
        server.send(b"one\n")
        made._receive()
        made._fail(TimeoutError())
        return await running

    assert asyncio.run(run()) == [b"one"]


def test_a_server_that_loads_its_data_has_closed_the_connection(ends):
    hiredis = pytest.importorskip("hiredis")
    ours, server = ends
    server.sendall(b"-LOADING Redis is loading the dataset in memory\r\n")
    replies = _FastReplies(SimpleNamespace(_sock=ours, _parser=DefaultParser(100)), hiredis)
    with pytest.raises(BusyLoadingError):
        replies.receive(str)


def test_a_loop_that_cannot_wait_for_sockets_is_known():
    loop = asyncio.new_event_loop()
    assert can_exchange(loop)
    assert not can_exchange(asyncio.AbstractEventLoop())
    loop.close()
