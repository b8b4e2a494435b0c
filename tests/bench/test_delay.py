"""The relay that adds a round-trip time: exact, in order, unlimited in throughput, ends and resets included."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from bench.compare.delay import DelayProxy

RTT_MS = 20.0
PATIENT = 20.0


class Peer:
    """A server of one test: its listener, and the connections it has taken."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(PATIENT)
        self.url = f"redis://127.0.0.1:{self.listener.getsockname()[1]}/3"
        self.taken: list[socket.socket] = []

    def accept(self) -> socket.socket:
        connection, _ = self.listener.accept()
        connection.settimeout(PATIENT)
        self.taken.append(connection)
        return connection

    def close(self) -> None:
        for one in (self.listener, *self.taken):
            one.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    with closing(Peer()) as peer:
        yield peer


@pytest.fixture
def connect(peer) -> Iterator:
    """Connections through a proxy: the client's end and the server's."""
    proxies: list[DelayProxy] = []
    ends: list[socket.socket] = []

    def make(rtt_ms: float = RTT_MS) -> tuple[socket.socket, socket.socket]:
        proxies.append(DelayProxy(peer.url, rtt_ms=rtt_ms))
        address = urlsplit(proxies[-1].url)
        assert address.path == "/3", "the database is the server's"
        ends.append(socket.create_connection((address.hostname, address.port), timeout=PATIENT))
        ends[-1].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return ends[-1], peer.accept()

    yield make
    for one in (*ends, *proxies):
        one.close()


def read(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count and (chunk := connection.recv(1 << 16)):
        data += chunk
    return bytes(data)


@pytest.mark.parametrize("rtt_ms", [0.5, 5.0, 20.0])
def test_each_direction_adds_half_of_the_round_trip(connect, rtt_ms):
    client, server = connect(rtt_ms)
    for sender, receiver in ((client, server), (server, client)):
        taken: list[float] = []
        ends = time.perf_counter() + PATIENT
        while len(taken) < 30 or (min(taken) >= rtt_ms / 2 + 0.5 and time.perf_counter() < ends):
            sent_at = time.perf_counter()
            sender.sendall(b"?")
            receiver.recv(1)
            taken.append((time.perf_counter() - sent_at) * 1000)
        assert min(taken) >= rtt_ms / 2, "nothing is early"
        assert min(taken) < rtt_ms / 2 + 0.5, "others may keep this machine busy, but not all the time"


def test_many_requests_in_flight_take_one_round_trip_together(connect):
    """A relay that slept for each chunk would take a minute."""
    client, server = connect(240.0)
    started = time.perf_counter()
    for _ in range(500):
        client.sendall(b"request")
        time.sleep(0.0002)  # chunks of their own
    assert len(read(server, 3_500)) == 3_500
    assert time.perf_counter() - started < PATIENT


def test_bytes_arrive_complete_and_in_their_order(connect):
    client, server = connect(1.0)
    dice = random.Random(9)
    sent = {client: dice.randbytes(3_000_000), server: dice.randbytes(3_000_000)}
    got: dict[socket.socket, bytes] = {}

    def send(end: socket.socket) -> None:
        rest = memoryview(sent[end])
        while rest:
            size = dice.choice((1, 100, 5_000, 200_000))
            end.sendall(rest[:size])
            rest = rest[size:]

    def receive(end: socket.socket) -> None:
        got[end] = read(end, 3_000_000)

    threads = [threading.Thread(target=what, args=(end,)) for what in (send, receive) for end in (client, server)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENT)
    assert got[server] == sent[client]
    assert got[client] == sent[server]


def test_the_end_of_a_stream_arrives_after_its_last_byte_and_the_other_direction_stays_open(connect):
    client, server = connect()
    sent_at = time.perf_counter()
    client.sendall(b"last")
    client.shutdown(socket.SHUT_WR)
    assert read(server, 100) == b"last"
    assert time.perf_counter() - sent_at >= RTT_MS / 2000
    server.sendall(b"answer")
    server.close()
    assert read(client, 100) == b"answer"
