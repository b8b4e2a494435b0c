"""The relay that adds a round-trip time: exact, in order, unlimited in throughput, ends and resets included."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing, suppress
from urllib.parse import urlsplit

import pytest

from bench.compare.delay import MAX_UNSENT, DelayProxy, Relay, _End
from bench.compare.machine import cpu_seconds

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


def ask(proxy: DelayProxy) -> bytes:
    address = urlsplit(proxy.url)
    with socket.create_connection((address.hostname, address.port), timeout=PATIENT) as client:
        return client.recv(1)


def read(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count and (chunk := connection.recv(1 << 16)):
        data += chunk
    return bytes(data)


@pytest.mark.parametrize("rtt_ms", [0.5, 5.0, 20.0])
def test_each_direction_adds_half_of_the_round_trip(connect, rtt_ms):
    client, server = connect(rtt_ms)
    for sender, receiver in ((client, server), (server, client)):
        taken = []
        for _ in range(30):
            sent_at = time.perf_counter()
            sender.sendall(b"?")
            receiver.recv(1)
            taken.append((time.perf_counter() - sent_at) * 1000)
        print(f"{min(taken):.2f} to {max(taken):.2f} ms")
        assert min(taken) >= rtt_ms / 2, "nothing is early"
        assert min(taken) < rtt_ms / 2 + 0.5, "others may keep this machine busy, but not all the time"


def test_without_a_delay_it_only_relays(connect):
    client, server = connect(0)
    for number in range(100):
        client.sendall(bytes([number]))
        assert server.recv(1) == bytes([number])
        server.sendall(bytes([number]))
        assert client.recv(1) == bytes([number])


def test_many_requests_in_flight_take_one_round_trip_together(connect):
    """A relay that slept for each chunk would take ten seconds."""
    client, server = connect()
    started = time.perf_counter()
    for _ in range(500):
        client.sendall(b"request")
        time.sleep(0.0002)  # chunks of their own
    assert len(read(server, 3_500)) == 3_500
    seconds = time.perf_counter() - started
    print(f"{seconds * 1000:.0f} ms")
    assert seconds < 5


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


def test_a_reset_arrives_as_a_reset(connect):
    client, server = connect()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()
    with pytest.raises(ConnectionResetError):
        server.recv(1)


def test_undeliverable_data_closes_the_connection_of_its_sender(connect):
    client, server = connect(1.0)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    server.close()
    client.sendall(b"into the void")
    with pytest.raises(ConnectionResetError):
        client.recv(1)


def test_a_receiver_that_does_not_read_stops_its_sender_and_then_gets_everything(connect):
    client, server = connect(1.0)
    much = 10 * MAX_UNSENT
    client.settimeout(1.0)
    sent, block = 0, bytes(1 << 16)
    with suppress(TimeoutError):
        while sent < much:
            sent += client.send(block)
    assert MAX_UNSENT < sent < much
    assert len(read(server, sent)) == sent


def test_without_a_server_the_connection_is_reset(peer):
    peer.listener.close()
    with closing(DelayProxy(peer.url, rtt_ms=1)) as proxy, pytest.raises(ConnectionResetError):
        ask(proxy)


def test_it_may_relay_to_a_unix_socket(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen()
        with closing(DelayProxy(f"unix://{tmp_path}/socket", rtt_ms=1)) as proxy:
            address = urlsplit(proxy.url)
            with socket.create_connection((address.hostname, address.port), timeout=PATIENT) as client:
                server, _ = listener.accept()
                with server:
                    client.sendall(b"hello")
                    assert server.recv(5) == b"hello"


def test_a_stream_that_has_ended_costs_no_cpu_time(peer):
    """An end that was hung up on is polled no more."""
    with closing(DelayProxy(peer.url, rtt_ms=1)) as proxy:
        address = urlsplit(proxy.url)
        with socket.create_connection((address.hostname, address.port), timeout=PATIENT) as client:
            server = peer.accept()
            client.shutdown(socket.SHUT_WR)
            assert server.recv(1) == b""
            before = cpu_seconds(proxy.pid)
            time.sleep(0.5)
            assert cpu_seconds(proxy.pid) - before < 0.1


@pytest.mark.parametrize("late", [b"data", b"", None], ids=["data", "end of stream", "reset"])
def test_late_data_of_a_closed_connection_does_not_reach_a_new_one_with_the_same_descriptor(peer, late):
    relay = Relay(peer.url, 0.0)
    with closing(relay._listener), closing(relay._poll):
        old = pair(relay)
        for end in old:
            relay._close(end)
        new = pair(relay)
        assert [end.fileno for end in new] == [end.fileno for end in old]
        relay._deliver(old[0], late)
        assert relay._ends == {end.fileno: end for end in new}
        assert new[0].unsent == new[1].unsent == deque()
        for end in new:
            relay._close(end)


def pair(relay: Relay) -> tuple[_End, _End]:
    """Two ends of one connection, as the relay makes them."""
    ends = tuple(_End(one) for one in socket.socketpair())
    for end, other in zip(ends, ends[::-1], strict=True):
        end.peer = other
        relay._ends[end.fileno] = end
        relay._watch(end)
    return ends
