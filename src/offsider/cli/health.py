"""``--health HOST:PORT``: HTTP probes for a platform, and metrics.

1. The address is bound before anything else starts, so that a port in use ends the start.
2. The parent serves it for all its workers, without a thread, because no job can block the parent.
3. ``/metrics`` returns the counters of these workers in Prometheus' text format.
4. ``/live`` and ``/ready`` return 200 ``ok``, or 503 with one reason per line.
   A request is limited to 8 KB and 2 s. When all connections are in use, a new connection replaces the oldest.
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

from offsider.core.error_text import describe
from offsider.core.errors import ConfigurationError
from offsider.logs.setup import logger
from offsider.prometheus import concurrency_family, running_family, series_families
from offsider.worker.health_state import HealthState

REQUEST_BYTES = 8192
REQUEST_SECONDS = 2.0
MAX_CONNECTIONS = 16
#: Pause after a failed accept: perhaps the process is out of file descriptors.
ACCEPT_PAUSE_SECONDS = 0.1


@dataclass
class _HealthConnection:
    """A connection that sends its request, or gets its response."""

    end: socket.socket
    give_up_at: float
    request: bytes = b""
    response: bytes = b""


class HealthServer:
    """HTTP server without a thread: call `tend` when a descriptor of `reading` or `writing` is ready, or at `due`.

    Args:
        address: ``host:port``, as in the setting ``worker.health``.
        health: state and counters of the workers.

    Raises:
        ConfigurationError: cannot listen on the address.
    """

    def __init__(self, address: str, health: HealthState) -> None:
        self._health = health
        self._socket = _listening(address)
        self._accept_at = 0.0
        self._open: list[_HealthConnection] = []

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._socket.getsockname()[1])

    def reading(self) -> list[int]:
        """Descriptors that must become readable."""
        listening = [self._socket.fileno()] if time.monotonic() >= self._accept_at else []
        return [*listening, *(each.end.fileno() for each in self._open if not each.response)]

    def writing(self) -> list[int]:
        """Descriptors that must become writable."""
        return [each.end.fileno() for each in self._open if each.response]

    def due(self) -> float:
        """Time at which the next connection is closed, by the monotonic clock; infinite without one."""
        paused = [self._accept_at] if self._accept_at > time.monotonic() else []
        return min([each.give_up_at for each in self._open] + paused, default=float("inf"))

    def tend(self) -> None:
        """Accept connections, read requests, and write responses, as far as possible without waiting."""
        now = time.monotonic()
        for each in [*self._open]:
            try:
                self._serve(each)
            except BlockingIOError:
                pass
            except OSError:
                each.give_up_at = now
            if now >= each.give_up_at:
                self._end(each)
        if now >= self._accept_at:
            self._accept(now)

    def close(self) -> None:
        """Stop listening. In a forked process, close only the copies of the sockets."""
        self._socket.close()
        for each in self._open:
            each.end.close()

    def _accept(self, now: float) -> None:
        for _ in range(MAX_CONNECTIONS):
            try:
                end, _ = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                logger.warning("the health endpoint cannot accept a connection: %s", describe(error))
                self._accept_at = now + ACCEPT_PAUSE_SECONDS
                return
            end.setblocking(False)
            if len(self._open) >= MAX_CONNECTIONS:  # silent connections must not block new ones
                self._end(self._open[0])
            self._open.append(_HealthConnection(end, now + REQUEST_SECONDS))

    def _serve(self, each: _HealthConnection) -> None:
        """Read the request up to the end of the headers or the size limit; then write the response."""
        while not each.response:
            data = each.end.recv(4096)
            each.request += data
            ended = b"\r\n\r\n" in each.request or b"\n\n" in each.request
            if not data or ended or len(each.request) > REQUEST_BYTES:
                each.response = response(each.request, self._health)
                each.give_up_at = time.monotonic() + REQUEST_SECONDS
        while each.response:
            each.response = each.response[each.end.send(each.response) :]
        self._end(each)

    def _end(self, each: _HealthConnection) -> None:
        if each in self._open:
            self._open.remove(each)
        with suppress(OSError):
            each.end.shutdown(socket.SHUT_RDWR)
        each.end.close()


def _listening(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, where = found[0]
        made = socket.create_server((str(where[0]), int(where[1])), family=family, backlog=64)
    except OSError as error:
        raise ConfigurationError(f"--health: cannot listen on {address}: {error.strerror or error}") from error
    made.setblocking(False)
    return made


def response(request: bytes, health: HealthState) -> bytes:
    """Return the response to a request of arbitrary bytes."""
    if len(request) > REQUEST_BYTES:
        return _written(431, "the request is too large\n")
    words = request.decode("latin-1").partition("\n")[0].split()
    if len(words) != 3 or not words[2].startswith("HTTP/"):
        return _written(400, "not an HTTP request\n")
    method, target, _ = words
    path = target.partition("?")[0]
    if path not in ("/live", "/ready", "/metrics"):
        return _written(404, "not found: use /live, /ready or /metrics\n", body=method != "HEAD")
    if method not in ("GET", "HEAD"):
        return _written(405, "GET and HEAD only\n", extra="Allow: GET, HEAD\r\n")
    if path == "/metrics":
        return _metrics(health, body=method == "GET")
    reasons = health.live() if path == "/live" else health.ready()
    text = "".join(f"{reason}\n" for reason in reasons) or "ok\n"
    return _written(503 if reasons else 200, text, body=method == "GET")


def _metrics(health: HealthState, *, body: bool) -> bytes:
    try:  # at the first scrape: the library is slow to import, and optional
        from offsider.prometheus.text import CONTENT_TYPE, text_of
    except ConfigurationError as error:
        return _written(501, f"{error}\n", body=body)

    workers = health.workers.values()
    families = series_families(list(health.series.values()))
    families += [running_family({(): sum(worker.busy for worker in workers)})]
    families += [concurrency_family(sum(worker.concurrency for worker in workers))]
    return _written(200, text_of(families), content_type=CONTENT_TYPE, body=body)


def _written(
    status: int,
    text: str,
    *,
    content_type: str = "text/plain; charset=utf-8",
    extra: str = "",
    body: bool = True,
) -> bytes:
    content = text.encode()
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(content)}\r\nCache-Control: no-store\r\nConnection: close\r\n{extra}\r\n"
    )
    return head.encode() + (content if body else b"")
