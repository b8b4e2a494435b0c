"""A TCP relay that adds a round-trip time: each direction is delayed by half of it.

    with closing(DelayProxy(server.url, rtt_ms=1)) as proxy:
        Redis(RedisSettings(url=proxy.url), size=1)

1. Each direction of a connection has two threads: one reads chunks and notes when each is due, the other one sends them
   then. So the delay does not limit the throughput.
2. An end of stream or a reset is delayed like data, and passed on after the data sent before it.
3. If a receiver does not read, the relay stops reading from its peer, as TCP does.

It runs in its own process: ``python -m bench.compare.delay URL RTT_MS`` prints its address and relays until its
standard input ends.
"""

from __future__ import annotations

import ctypes
import gc
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from queue import Queue
from urllib.parse import SplitResult, urlsplit

ROOT = Path(__file__).resolve().parents[2]
CHUNK = 1 << 16
#: Maximum number of unsent chunks for a receiver; then the relay stops reading from its peer.
MAX_CHUNKS = 512
RESET = struct.pack("ii", 1, 0)
PR_SET_TIMERSLACK = 29


class DelayProxy:
    """The relay as a process.

    Attributes:
        url: address for clients.
        pid: the process, for its CPU time.
    """

    def __init__(self, url: str, *, rtt_ms: float) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.compare.delay", url, str(rtt_ms)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        self.url = self._process.stdout.readline().strip()
        if not self.url:
            raise OSError(f"the delay proxy to {url} did not start")

    def close(self) -> None:
        """End the process and all its connections."""
        self._process.communicate()  # closes its standard input, which ends it


class Connection:
    """A client's connection and the relay's own connection to the server."""

    def __init__(self, client: socket.socket, server: socket.socket, delay_seconds: float) -> None:
        self._ends = (client, server)
        self._delay_seconds = delay_seconds
        self._broken = False
        for end in self._ends:
            if end.family == socket.AF_INET:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def relay(self) -> None:
        """Relay in both directions until both have ended, then close."""
        threads: list[threading.Thread] = []
        for source, target in (self._ends, self._ends[::-1]):
            #: Due time and bytes: empty for the end of the stream, None for a reset.
            chunks: Queue[tuple[float, bytes | None]] = Queue(MAX_CHUNKS)
            threads.append(threading.Thread(target=self._read, args=(source, chunks), daemon=True))
            threads.append(threading.Thread(target=self._send, args=(target, chunks), daemon=True))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for end in self._ends:
            end.close()

    def _read(self, source: socket.socket, chunks: Queue[tuple[float, bytes | None]]) -> None:
        data: bytes | None = b"started"
        while data:
            try:
                data = source.recv(CHUNK)
            except OSError:
                data = None
            chunks.put((time.monotonic() + self._delay_seconds, data))

    def _send(self, target: socket.socket, chunks: Queue[tuple[float, bytes | None]]) -> None:
        data: bytes | None = b"started"
        while data:  # to the end of the stream, also after a reset: the reader must not wait for a place
            due_at, data = chunks.get()
            time.sleep(max(0.0, due_at - time.monotonic()))
            if self._broken:
                continue
            try:
                if data:
                    target.sendall(data)
                elif data is not None:
                    target.shutdown(socket.SHUT_WR)
            except OSError:
                self._reset()
            if data is None:
                self._reset()

    def _reset(self) -> None:
        """Make `close` send a reset to both ends, and wake the threads that read from them."""
        self._broken = True
        for end in self._ends:
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                end.shutdown(socket.SHUT_RD)


class Relay:
    """Accepts connections, and relays each to one server.

    Args:
        target: ``redis://host:port/db`` or ``unix://path``.
        delay_seconds: delay of each direction.

    Attributes:
        url: address of the relay.
    """

    def __init__(self, target: str, delay_seconds: float) -> None:
        self._target = urlsplit(target)
        self._delay_seconds = delay_seconds
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        path = "" if self._target.scheme == "unix" else self._target.path
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}{path}"

    def run(self) -> None:
        """Relay forever."""
        while True:
            client, _ = self._listener.accept()
            try:
                server = _connect(self._target)
            except OSError:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                client.close()
                continue
            connection = Connection(client, server, self._delay_seconds)
            threading.Thread(target=connection.relay, daemon=True).start()


def _connect(target: SplitResult) -> socket.socket:
    if target.scheme == "unix":
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(target.path)
        return connection
    return socket.create_connection((target.hostname or "127.0.0.1", target.port or 6379))


def main() -> None:
    """Relay until standard input ends."""
    url, rtt_ms = sys.argv[1:]
    # A sleeping thread is woken up to 50 us late by default; threads inherit this setting.
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    gc.disable()
    relay = Relay(url, float(rtt_ms) / 2000)
    threading.Thread(target=relay.run, daemon=True).start()
    print(relay.url, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
