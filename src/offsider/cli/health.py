"""``--health HOST:PORT``: HTTP probes for a platform, and metrics.

1. The address is bound before anything else starts, so that a port in use ends the start.
2. The keeper serves it for all its workers, because no job can block the keeper. Without a keeper the worker serves it.
3. ``/metrics`` returns the counters of these workers in Prometheus' text format.
4. ``/live`` and ``/ready`` return 200 ``ok``, or 503 with one reason per line; JSON for clients that accept JSON.
   A request is limited to 8 KB and 2 s. When all connections are in use, a new connection replaces the oldest.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus

from offsider.core.error_text import describe
from offsider.core.errors import ConfigurationError
from offsider.logs.setup import logger
from offsider.prometheus.family import concurrency_family, running_family, series_families
from offsider.worker.health_state import HealthState
from offsider.worker.totals import Totals

REQUEST_BYTES = 8192
REQUEST_SECONDS = 2.0
MAX_CONNECTIONS = 16


class Starting:
    """Health before the worker has started."""

    def live(self) -> list[str]:
        return []

    def ready(self) -> list[str]:
        return ["the worker is starting"]


class HealthServer:
    """HTTP server that listens when it is created and responds after `serve`.

    Args:
        address: ``host:port``, as in the setting ``worker.health``.
        shard: shard of the workers, included in JSON responses; empty for none.

    Raises:
        ConfigurationError: cannot listen on the address.
    """

    def __init__(self, address: str, *, shard: str = "") -> None:
        self._shard = shard
        self._health: Callable[[], HealthState | Starting] = Starting
        self._totals = Totals()
        self._socket = _listening(address)
        self._serving = self._closed = False
        self._open: dict[socket.socket, None] = {}
        self._lock = threading.Lock()
        self._room = threading.Semaphore(MAX_CONNECTIONS)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._socket.getsockname()[1])

    def serve(self, health: Callable[[], HealthState | Starting] = Starting, totals: Totals | None = None) -> None:
        """Respond in threads. A second call replaces the arguments of the first.

        Args:
            health: called at each probe for the health of the workers.
            totals: counters for a scrape; None for zeros.
        """
        self._health, self._totals = health, totals or Totals()
        if self._serving:
            return
        self._serving = True
        threading.Thread(target=self._accept, name="offsider-health", daemon=True).start()

    def close(self) -> None:
        """Stop listening. In the parent of the process that serves, close only the parent's copy of the socket."""
        self._closed = True
        if self._serving:
            with suppress(OSError):  # unblocks `accept`
                self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError as error:
                if self._closed:
                    return
                logger.warning("the health endpoint cannot accept a connection: %s", describe(error))
                time.sleep(0.1)  # perhaps out of file descriptors: avoid a busy loop
                continue
            self._add(connection)
            self._room.acquire()  # blocks while all threads are in use: a flood must not start more
            threading.Thread(target=self._answer, args=(connection,), name="offsider-probe", daemon=True).start()

    def _add(self, connection: socket.socket) -> None:
        with self._lock:
            if len(self._open) >= MAX_CONNECTIONS:
                oldest = next(iter(self._open))
                del self._open[oldest]
                with suppress(OSError):  # silent connections must not block new ones
                    oldest.shutdown(socket.SHUT_RDWR)
            self._open[connection] = None

    def _answer(self, connection: socket.socket) -> None:
        try:
            with connection, suppress(OSError):
                connection.sendall(response(_read(connection), self._health, self._totals, self._shard))
        finally:
            with self._lock:
                self._open.pop(connection, None)
            self._room.release()


def _listening(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, where = found[0]
        made = socket.create_server((str(where[0]), int(where[1])), family=family, backlog=64)
    except OSError as error:
        raise ConfigurationError(f"--health: cannot listen on {address}: {error.strerror or error}") from error
    made.set_inheritable(False)
    return made


def _read(connection: socket.socket) -> bytes:
    """Read up to the end of the headers, the size limit, or the timeout."""
    deadline = time.monotonic() + REQUEST_SECONDS
    data = b""
    while b"\r\n\r\n" not in data and b"\n\n" not in data and len(data) <= REQUEST_BYTES:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        chunk = connection.recv(4096)
        if not chunk:
            break
        data += chunk
    return data


def response(request: bytes, health: Callable[[], HealthState | Starting], totals: Totals, shard: str = "") -> bytes:
    """Return the response to a request of arbitrary bytes."""
    if len(request) > REQUEST_BYTES:
        return _written(431, "the request is too large\n")
    line, _, headers = request.decode("latin-1").partition("\n")
    words = line.split()
    if len(words) != 3 or not words[2].startswith("HTTP/"):
        return _written(400, "not an HTTP request\n")
    method, target, _ = words
    path = target.partition("?")[0]
    if path not in ("/live", "/ready", "/metrics"):
        return _written(404, "not found: use /live, /ready or /metrics\n", body=method != "HEAD")
    if method not in ("GET", "HEAD"):
        return _written(405, "GET and HEAD only\n", extra="Allow: GET, HEAD\r\n")
    if path == "/metrics":
        return _metrics(totals, body=method == "GET")
    return _probe(path, _reasons(path, health), shard, as_json=_wants_json(headers), body=method == "GET")


def _probe(path: str, reasons: Sequence[str], shard: str, *, as_json: bool, body: bool) -> bytes:
    status = 503 if reasons else 200
    if as_json:
        state = {path[1:]: not reasons, "reasons": list(reasons)} | ({"shard": shard} if shard else {})
        return _written(status, json.dumps(state) + "\n", content_type="application/json; charset=utf-8", body=body)
    return _written(status, "".join(f"{reason}\n" for reason in reasons) or "ok\n", body=body)


def _metrics(totals: Totals, *, body: bool) -> bytes:
    try:  # at the first scrape: the library is slow to import, and optional
        from offsider.prometheus.text import CONTENT_TYPE, text_of
    except ConfigurationError as error:
        return _written(501, f"{error}\n", body=body)

    families = series_families(totals.series())
    families += [running_family({(): totals.busy}), concurrency_family(totals.concurrency)]
    return _written(200, text_of(families), content_type=CONTENT_TYPE, body=body)


def _reasons(path: str, health: Callable[[], HealthState | Starting]) -> Sequence[str]:
    try:
        now = health()
        return now.live() if path == "/live" else now.ready()
    except Exception as error:  # noqa: BLE001  # a probe gets a response, whatever the error is
        return [f"the health check failed: {describe(error)}"]


def _wants_json(headers: str) -> bool:
    accepted = [line.partition(":")[2] for line in headers.splitlines() if line.lower().startswith("accept:")]
    return any("application/json" in kinds.lower() for kinds in accepted)


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
