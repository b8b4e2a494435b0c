"""Measures the relay itself: the accuracy of its round trip, and its maximum throughput."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from bench.compare.delay import DelayProxy
from bench.compare.server import Server
from bench.compare.stats import quantile

PINGS = 200
CLIENTS = 10
SECONDS = 0.5
BLOCK = 1 << 20
BLOCKS = 64


def measure(server: Server, rtt_ms: float) -> Mapping[str, float]:
    """Return the round trip in ms, requests per second of `CLIENTS` clients, and MB per second, through a relay."""
    with DelayProxy(server.url, rtt_ms=rtt_ms) as proxy:
        clients = [_connected(proxy.url) for _ in range(CLIENTS)]
        try:
            took = sorted(_ping_ms(clients[0]) for _ in range(PINGS))
            return {
                "rtt_ms": rtt_ms,
                "p50": quantile(took, 0.5),
                "p99": quantile(took, 0.99),
                "requests": _requests_per_second(clients),
                "mb": _mb_per_second(clients[0]),
            }
        finally:
            for client in clients:
                client.close()


def _connected(url: str) -> socket.socket:
    address = urlsplit(url)
    client = socket.create_connection((address.hostname or "", address.port or 0), timeout=60)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def _ping_ms(client: socket.socket) -> float:
    started = time.perf_counter()
    client.sendall(b"PING\r\n")
    client.recv(16)
    return (time.perf_counter() - started) * 1000


def _requests_per_second(clients: list[socket.socket]) -> float:
    """Measure with one request under way per client."""
    count, started = 0, time.perf_counter()
    while time.perf_counter() - started < SECONDS:
        for client in clients:
            client.sendall(b"PING\r\n")
        for client in clients:
            client.recv(16)
        count += len(clients)
    return count / (time.perf_counter() - started)


def _mb_per_second(client: socket.socket) -> float:
    request = b"*3\r\n$3\r\nSET\r\n$5\r\nblock\r\n$%d\r\n%b\r\n" % (BLOCK, bytes(BLOCK))
    started, answered = time.perf_counter(), 0
    for _ in range(BLOCKS):
        client.sendall(request)
    while answered < BLOCKS * len(b"+OK\r\n"):
        answered += len(client.recv(1 << 16))
    return BLOCKS / (time.perf_counter() - started)
