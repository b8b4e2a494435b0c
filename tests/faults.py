"""A TCP proxy before a server that fails on request: replies lost or held, connections reset or refused.

It stands before the primary of a Cluster, and hides the other nodes.

    with FaultProxy(server.url) as proxy:
        pool = Redis(RedisSettings(url=proxy.url), size=1)
        proxy.lose_reply(b"LPUSH")      # the server executes it, the caller gets no reply
        proxy.lose_request(b"LPUSH")    # the server never gets it, and the caller sees no difference
        proxy.hold()                    # replies wait ...
        proxy.release()                 # ... until now
        proxy.black_hole()              # requests wait as well, also those of new connections, until `release`
        proxy.reset(), proxy.close()    # every connection breaks with RST, or ends with FIN
        proxy.refuse(), proxy.accept()  # the address refuses connections, and accepts them again

Patterns are found in the bytes of a request: a command's name, or a script's ``sha``.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self
from urllib.parse import urlsplit

from tests.tagged import is_cluster, primary_url

_RST = struct.pack("ii", 1, 0)
_CLUSTER_SLOTS = b"$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n"


class FaultProxy:
    """Stands between clients and one server; made for one test."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(primary_url(url))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._faults: list[tuple[bytes, bool]] = []
        self._open: set[socket.socket] = set()
        self._readers: set[threading.Thread] = set()
        self._passing = threading.Event()
        self._passing.set()
        self._flowing = threading.Event()
        self._flowing.set()
        self._refusing = False
        port = self._listener.getsockname()[1]
        self.url = f"redis+cluster://127.0.0.1:{port}" if is_cluster(url) else f"redis://127.0.0.1:{port}/0"
        self._slots = b"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n" % port
        #: set when a reply has come that waits for `release`
        self.holding = threading.Event()
        #: requests or replies lost up to now
        self.lost = 0
        #: connections accepted and refused up to now
        self.connections = self.refused = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._refusing = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.release()
        self.reset()

    def lose_reply(self, pattern: bytes, times: int = 1) -> None:
        with self._lock:
            self._faults += [(pattern, True)] * times

    def lose_request(self, pattern: bytes, times: int = 1) -> None:
        with self._lock:
            self._faults += [(pattern, False)] * times

    def hold(self) -> None:
        self.holding.clear()
        self._passing.clear()

    def black_hole(self) -> None:
        self.hold()
        self._flowing.clear()

    def release(self) -> None:
        self._flowing.set()
        self._passing.set()

    def refuse(self) -> None:
        self._refusing = True
        self.reset()

    def accept(self) -> None:
        self._refusing = False

    def reset(self) -> None:
        self._leave(_doom)

    def close(self) -> None:
        self._leave(_shut)

    def _leave(self, how: Callable[[socket.socket], None]) -> None:
        with self._lock:
            connections, self._open = self._open, set()
            readers, self._readers = self._readers, set()
            for connection in connections:
                how(connection)
        for reader in readers:
            reader.join()  # it closes them

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = None if self._refusing else self._connect()
                if server is None:
                    self.refused += 1
                    _doom(client)
                    client.close()
                    continue
                reader = threading.Thread(target=self._relay, args=(client, server), daemon=True)
                with self._lock:
                    self._open |= {client, server}
                    self._readers.add(reader)
                    self.connections += 1
                    reader.start()

    def _relay(self, client: socket.socket, server: socket.socket) -> None:
        """Pass requests and replies on. Only this thread closes the sockets, after the other thread's last use.

        Otherwise a thread may still use a descriptor that belongs to a new socket by then.
        """
        between = (client, server, threading.Event(), threading.Lock())
        replies = threading.Thread(target=self._replies, args=between, daemon=True)
        replies.start()
        self._requests(*between)
        replies.join()
        with self._lock:
            client.close()
            server.close()

    def _connect(self) -> socket.socket | None:
        """A connection to the server; None while it is not there."""
        with suppress(OSError):
            if self._target.scheme == "unix":
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._target.path)
                return server
            return socket.create_connection((self._target.hostname or "127.0.0.1", self._target.port or 6379))
        return None

    def _requests(
        self, client: socket.socket, server: socket.socket, doomed: threading.Event, sending: threading.Lock
    ) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 16):
                while not self._flowing.wait(0.05):
                    if client not in self._open:  # the connection broke in between
                        return
                if _CLUSTER_SLOTS in data:
                    self._show_slots(client)
                    continue
                with sending:
                    fault = self._fault(data)
                    if fault is not None:
                        doomed.set()
                        if not fault:
                            break
                    server.sendall(data)
        self._end(client, server)

    def _show_slots(self, client: socket.socket) -> None:
        """Reply to CLUSTER SLOTS, so that the nodes do not send the client past this proxy."""
        with self._lock:
            self.connections -= 1  # this one is only for the question
        client.sendall(self._slots)

    def _replies(
        self, client: socket.socket, server: socket.socket, doomed: threading.Event, sending: threading.Lock
    ) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                if not self._passing.is_set():
                    self.holding.set()
                    while not self._passing.wait(0.05):
                        if client not in self._open:
                            return
                if doomed.is_set():
                    with sending:  # this may be the reply to an earlier request
                        break
                client.sendall(data)
        self._end(client, server)

    def _fault(self, data: bytes) -> bool | None:
        with self._lock:
            for fault in self._faults:
                if fault[0] in data:
                    self._faults.remove(fault)
                    self.lost += 1
                    return fault[1]
        return None

    def _end(self, *pair: socket.socket) -> None:
        """End both connections, unless `_leave` does so."""
        with self._lock:
            here = self._open.intersection(pair)
            self._open -= here
            for connection in here:
                _shut(connection)


def _shut(connection: socket.socket) -> None:
    """End with FIN, and wake threads that read."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _doom(connection: socket.socket) -> None:
    """Make `close` send RST, and wake threads that read."""
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST)
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RD)
