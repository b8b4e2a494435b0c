"""``--health HOST:PORT``: tells a platform over HTTP whether the workers live, and whether they take jobs.

1. The address is bound before anything else is started, so that a port that is taken ends the start.
2. It is served by the keeper, for all workers beside it, since no job can hold that up; without a keeper by the worker.
3. ``/metrics`` tells what these workers have counted, in Prometheus' text format.
4. ``/live`` and ``/ready`` answer 200 ``ok``, or 503 with one reason a line; as JSON to those who accept nothing else.
   A request is at most 8 KB and 2 s, and the newest of many connections is always heard.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from offsider.core.errors import ConfigurationError
from offsider.core.series import Series
from offsider.wiring.logs import describe, logger

REQUEST_BYTES = 8192
REQUEST_SECONDS = 2.0
MOST_CONNECTIONS = 16
STATUS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


class Health(Protocol):
    """How the workers fare, see `offsider.worker.health_state.HealthState`."""

    def live(self) -> list[str]: ...

    def ready(self) -> list[str]: ...


class Starting:
    """Before anything is known."""

    def live(self) -> list[str]:
        return []

    def ready(self) -> list[str]:
        return ["the worker is starting"]


class Sums(Protocol):
    """What the workers have counted, see `offsider.worker.run_sums.RunSums`."""

    def series(self) -> list[Series]: ...

    @property
    def busy(self) -> int: ...

    @property
    def concurrency(self) -> int: ...


class NoSums:
    """Before anything is counted."""

    busy = concurrency = 0

    def series(self) -> list[Series]:
        return []


class HealthServer:
    """Listens from the moment it is made; `serve` begins to answer.

    Args:
        address: ``host:port`` as the setting ``worker.health`` has it.
        shard: that the workers serve, told to those who take JSON; empty for none.

    Attributes:
        health: asked at each request how the workers fare.
        sums: what a scrape is answered.

    Raises:
        ConfigurationError: nothing can listen there.
    """

    def __init__(self, address: str, *, shard: str = "") -> None:
        self._shard = shard
        self.health: Callable[[], Health] = Starting
        self.sums: Sums = NoSums()
        self._socket = _listening(address)
        self._serving = self._closed = False
        self._open: dict[socket.socket, None] = {}
        self._lock = threading.Lock()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._socket.getsockname()[1])

    def serve(self) -> None:
        """Answer from now on, in threads."""
        self._serving = True
        threading.Thread(target=self._accept, name="offsider-health", daemon=True).start()

    def close(self) -> None:
        """Listen no longer. In a process that has forked the one that serves, only its own hold on the port ends."""
        self._closed = True
        if self._serving:
            with suppress(OSError):  # ends the waiting for connections
                self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError as error:
                if self._closed:
                    return
                logger.warning("the health endpoint cannot take a connection: %s", describe(error))
                time.sleep(0.1)  # out of file descriptors, perhaps: not as fast as possible
                continue
            self._make_room_for(connection)
            threading.Thread(target=self._answer, args=(connection,), name="offsider-probe", daemon=True).start()

    def _make_room_for(self, connection: socket.socket) -> None:
        with self._lock:
            if len(self._open) >= MOST_CONNECTIONS:
                oldest = next(iter(self._open))
                del self._open[oldest]
                with suppress(OSError):  # one that says nothing must not keep others from being heard
                    oldest.shutdown(socket.SHUT_RDWR)
            self._open[connection] = None

    def _answer(self, connection: socket.socket) -> None:
        try:
            with connection, suppress(OSError):
                connection.sendall(response(_read(connection), self.health, self.sums, self._shard))
        finally:
            with self._lock:
                self._open.pop(connection, None)


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
    """What came, up to the end of the headers, the limit, or the end of the time."""
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


def response(request: bytes, health: Callable[[], Health], sums: Sums, shard: str = "") -> bytes:
    """The answer to a request, whatever its bytes are."""
    if len(request) > REQUEST_BYTES:
        return _written(431, "the request is too large\n")
    line, _, headers = request.decode("latin-1").partition("\n")
    words = line.split()
    if len(words) != 3 or not words[2].startswith("HTTP/"):
        return _written(400, "this is no HTTP request\n")
    method, target, _ = words
    path = target.partition("?")[0]
    if path not in ("/live", "/ready", "/metrics"):
        return _written(404, "/live, /ready and /metrics are here\n", body=method != "HEAD")
    if method not in ("GET", "HEAD"):
        return _written(405, "GET and HEAD only\n", extra="Allow: GET, HEAD\r\n")
    if path == "/metrics":
        return _metrics(sums, body=method == "GET")
    return _told(path, _reasons(path, health), shard, as_json=_wants_json(headers), body=method == "GET")


def _told(path: str, reasons: Sequence[str], shard: str, *, as_json: bool, body: bool) -> bytes:
    status = 503 if reasons else 200
    if as_json:
        told = {path[1:]: not reasons, "reasons": list(reasons)} | ({"shard": shard} if shard else {})
        return _written(status, json.dumps(told) + "\n", content_type="application/json; charset=utf-8", body=body)
    return _written(status, "".join(f"{reason}\n" for reason in reasons) or "ok\n", body=body)


def _metrics(sums: Sums, *, body: bool) -> bytes:
    # Imported at the first scrape: a worker that nobody scrapes does without.
    from offsider.inspector.exposition import CONTENT_TYPE, series_text

    text = series_text(sums.series(), concurrency=sums.concurrency, running=sums.busy)
    return _written(200, text, content_type=CONTENT_TYPE, body=body)


def _reasons(path: str, health: Callable[[], Health]) -> Sequence[str]:
    try:
        now = health()
        return now.live() if path == "/live" else now.ready()
    except Exception as error:  # noqa: BLE001  # a probe gets an answer, whatever is wrong with us
        return [f"nothing is known: {describe(error)}"]


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
        f"HTTP/1.1 {status} {STATUS[status]}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(content)}\r\nCache-Control: no-store\r\nConnection: close\r\n{extra}\r\n"
    )
    return head.encode() + (content if body else b"")
