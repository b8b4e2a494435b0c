"""A TCP relay that adds a round-trip time: each direction is delayed by half of it.

    with DelayProxy(server.url, rtt_ms=1) as proxy:
        Redis(RedisSettings(url=proxy.url), size=1)

1. The relay reads each chunk at once, adds a timestamp, and sends it when it is due. It never sleeps per chunk, so the
   delay does not limit the throughput.
2. The delay is the same for all connections, so one queue in order of arrival is also in order of departure.
3. An end of stream or a reset is delayed like data, and passed on after the data sent before it.
4. If a receiver does not read, the relay stops reading from its peer, as TCP does.

It runs in its own process: ``python -m bench.compare.delay URL RTT_MS`` prints its address and relays until its
standard input ends.
"""

from __future__ import annotations

import ctypes
import gc
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import SplitResult, urlsplit

ROOT = Path(__file__).resolve().parents[2]
CHUNK = 1 << 18
#: Maximum number of unsent bytes for a receiver; above it, the relay stops reading from its peer.
MAX_UNSENT = 1 << 22
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the process and all its connections."""
        self._process.communicate()  # closes its standard input, which ends it


class _End:
    """One end of a relayed connection.

    Attributes:
        peer: the other end, which receives its bytes.
        unsent: due bytes that the receiver has not accepted yet; an empty chunk is the end of the stream.
        waiting: the number of these bytes.
        events: the events that the relay polls for.
        ended: its stream has ended.
        shut: the end of the peer's stream has been passed on to it.
    """

    __slots__ = ("ended", "events", "fileno", "peer", "shut", "socket", "unsent", "waiting")

    peer: _End

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        if connection.family == socket.AF_INET:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connection
        self.fileno = connection.fileno()
        self.unsent: deque[bytes] = deque()
        self.waiting = 0
        self.events = 0
        self.ended = self.shut = False


class Relay:
    """Relays between clients and one server, in one thread.

    Args:
        target: ``redis://host:port/db`` or ``unix://path``.
        delay_seconds: delay of each direction.

    Attributes:
        url: address of the relay.
    """

    def __init__(self, target: str, delay_seconds: float) -> None:
        self._target = urlsplit(target)
        self._delay = delay_seconds
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._poll = select.epoll()
        self._poll.register(self._listener, select.EPOLLIN)
        self._ends: dict[int, _End] = {}
        #: Due time, receiver, bytes: empty for the end of the stream, None for a reset.
        self._flying: deque[tuple[float, _End, bytes | None]] = deque()
        path = "" if self._target.scheme == "unix" else self._target.path
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}{path}"

    def run(self) -> None:
        """Relay forever."""
        listener = self._listener.fileno()
        while True:
            for fileno, event in self._events():
                end = self._ends.get(fileno)
                if end is None:
                    if fileno == listener:
                        self._accept()
                    continue
                if event & select.EPOLLOUT:
                    self._flush(end)
                if event & ~select.EPOLLOUT:
                    self._read(end)
            self._send_what_is_due()

    def _events(self) -> list[tuple[int, int]]:
        if not self._flying:
            return self._poll.poll()
        # epoll rounds up to milliseconds, select to microseconds.
        rest = self._flying[0][0] - time.monotonic()
        if rest > 0:
            select.select([self._poll], [], [], rest)
        return self._poll.poll(0)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        try:
            server = _connect(self._target)
        except OSError:
            _reset(connection)
            return
        pair = _End(connection), _End(server)
        for end, peer in (pair, pair[::-1]):
            end.peer = peer
            self._ends[end.fileno] = end
            self._watch(end)

    def _read(self, end: _End) -> None:
        if end.ended or not self._is_open(end):
            return
        data: bytes | None
        try:
            data = end.socket.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = None
        if not data:
            end.ended = True
            self._watch(end)
        if self._delay:
            self._flying.append((time.monotonic() + self._delay, end.peer, data))
        else:
            self._deliver(end.peer, data)

    def _send_what_is_due(self) -> None:
        flying, now = self._flying, time.monotonic()
        while flying and flying[0][0] <= now:
            _, end, data = flying.popleft()
            self._deliver(end, data)

    def _deliver(self, end: _End, data: bytes | None) -> None:
        if not self._is_open(end):  # reset by then
            return
        if data is None:
            self._break(end)
            return
        end.unsent.append(data)
        end.waiting += len(data)
        if len(end.unsent) == 1:
            self._flush(end)
        elif end.waiting > MAX_UNSENT:
            self._watch(end.peer)

    def _flush(self, end: _End) -> None:
        unsent, before = end.unsent, end.waiting
        try:
            while unsent:
                data = unsent[0]
                sent = end.socket.send(data) if data else self._shut(end)
                end.waiting -= sent
                if sent < len(data):
                    unsent[0] = data[sent:]
                    break
                unsent.popleft()
        except BlockingIOError:
            pass
        except OSError:
            self._break(end)
            return
        if unsent or end.events & select.EPOLLOUT:
            self._watch(end)
        if before > MAX_UNSENT >= end.waiting:
            self._watch(end.peer)
        if end.shut and end.peer.shut:
            self._close(end)
            self._close(end.peer)

    @staticmethod
    def _shut(end: _End) -> int:
        end.shut = True
        end.socket.shutdown(socket.SHUT_WR)
        return 0

    def _watch(self, end: _End) -> None:
        """Update the events that the relay polls for."""
        if not self._is_open(end):
            return
        reading = not end.ended and end.peer.waiting <= MAX_UNSENT
        events = (select.EPOLLIN if reading else 0) | (select.EPOLLOUT if end.unsent else 0)
        if events and end.events:
            self._poll.modify(end.fileno, events)
        elif events:
            self._poll.register(end.fileno, events)
        elif end.events:  # else it would report that it was hung up, again and again
            self._poll.unregister(end.fileno)
        end.events = events

    def _break(self, end: _End) -> None:
        """Reset both ends."""
        for one in (end, end.peer):
            if self._is_open(one):
                one.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self._close(one)

    def _is_open(self, end: _End) -> bool:
        """Return whether this end is open; also False if a later connection has its descriptor."""
        return self._ends.get(end.fileno) is end

    def _close(self, end: _End) -> None:
        if self._is_open(end):
            del self._ends[end.fileno]
            if end.events:
                self._poll.unregister(end.fileno)
            end.socket.close()


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    connection.close()


def _connect(target: SplitResult) -> socket.socket:
    if target.scheme == "unix":
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(target.path)
        return connection
    return socket.create_connection((target.hostname or "127.0.0.1", target.port or 6379))


def main() -> None:
    """Relay until standard input ends."""
    url, rtt_ms = sys.argv[1:]
    relay = Relay(url, float(rtt_ms) / 2000)
    # A sleeping thread is woken up to 50 us late by default.
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    gc.disable()
    threading.Thread(target=relay.run, daemon=True).start()
    print(relay.url, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
