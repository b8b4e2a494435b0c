"""A client for a statsd daemon that sends each value in a datagram without waiting."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

#: Pause between attempts to open a socket, since a name lookup may be slow.
_PAUSE_SECONDS = 1.0

_RESERVED = str.maketrans({":": "_", "|": "_", "@": "_", "\n": "_"})
_RESERVED_IN_TAGS = str.maketrans({"|": "_", ",": "_", "\n": "_", "#": "_"})


class StatsdClient(Protocol):
    """Interface of a client. ``DogStatsd`` of the package ``datadog`` implements it too."""

    def increment(self, metric: str, value: float = 1, tags: Any = None, sample_rate: Any = None) -> object: ...
    def gauge(self, metric: str, value: float, tags: Any = None, sample_rate: Any = None) -> object: ...
    def timing(self, metric: str, value: float, tags: Any = None, sample_rate: Any = None) -> object: ...
    def distribution(self, metric: str, value: float, tags: Any = None, sample_rate: Any = None) -> object: ...


class DogStatsd:
    """A client of a statsd daemon. It never waits for the daemon and never raises: values that cannot be sent are lost.

    Args:
        host, port: address of the daemon.
        path: path of its Unix socket, instead of host and port.
        prefix: prefix of each metric name.
        datadog: whether the daemon supports Datadog's tags and distributions; if not, they are not sent.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 8125,
        *,
        path: str | None = None,
        prefix: str = "sidekiq.",
        datadog: bool = True,
    ) -> None:
        self._address = (host, port)
        self._path = path
        self._prefix = prefix
        self._datadog = datadog
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self._next_try = 0.0

    def increment(
        self, metric: str, value: float = 1, tags: Sequence[str] | None = None, sample_rate: float | None = None
    ) -> None:
        """Increment a counter."""
        self._send(metric, value, "c", tags, sample_rate)

    def gauge(
        self, metric: str, value: float, tags: Sequence[str] | None = None, sample_rate: float | None = None
    ) -> None:
        """Send a current value."""
        self._send(metric, value, "g", tags, sample_rate)

    def timing(
        self, metric: str, value: float, tags: Sequence[str] | None = None, sample_rate: float | None = None
    ) -> None:
        """Send a duration in milliseconds."""
        self._send(metric, value, "ms", tags, sample_rate)

    def distribution(
        self, metric: str, value: float, tags: Sequence[str] | None = None, sample_rate: float | None = None
    ) -> None:
        """Send a value for percentiles over all hosts; Datadog only."""
        if self._datadog:
            self._send(metric, value, "d", tags, sample_rate)

    def open(self) -> None:
        """Open the socket now. Values sent while another thread opens it are lost."""
        self._open()

    def close(self) -> None:
        """Close the socket; the next value opens a new one."""
        with self._lock:
            opened, self._socket = self._socket, None
        if opened is not None:
            opened.close()

    def _send(self, metric: str, value: float, kind: str, tags: Sequence[str] | None, rate: float | None) -> None:
        if rate is not None and rate < 1 and random.random() >= rate:
            return
        line = f"{self._prefix}{metric.translate(_RESERVED)}:{_number(value)}|{kind}"
        if rate is not None and rate < 1:
            line += f"|@{rate:g}"
        if tags and self._datadog:
            line += "|#" + ",".join(tag.translate(_RESERVED_IN_TAGS) for tag in tags)
        opened = self._socket or self._open()
        if opened is None:
            return
        try:
            opened.send(line.encode())
        except BlockingIOError:
            return  # the daemon is too slow
        except OSError:  # the daemon has stopped, or listens on a new socket
            self.close()

    def _open(self) -> socket.socket | None:
        if not self._lock.acquire(blocking=False):
            return None  # another thread is opening it and may wait for a name server
        try:
            if self._socket is None and time.monotonic() >= self._next_try:
                self._next_try = time.monotonic() + _PAUSE_SECONDS
                with suppress(OSError):  # no such name, no such path
                    self._socket = self._connected()
            return self._socket
        finally:
            self._lock.release()

    def _connected(self) -> socket.socket:
        if self._path is not None:
            made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            where: Any = self._path
        else:
            family, _, _, _, where = socket.getaddrinfo(*self._address, type=socket.SOCK_DGRAM)[0]
            made = socket.socket(family, socket.SOCK_DGRAM)
        made.setblocking(False)
        try:
            made.connect(where)
        except OSError:
            made.close()
            raise
        return made


def _number(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".") if value % 1 else str(int(value))
