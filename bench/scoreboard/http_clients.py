"""Sends requests to the pages: in this process as an ASGI or a WSGI server would, and over HTTP.

No client library normalizes them, so hostile requests arrive unchanged.
"""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_to_bytes, urlencode
from wsgiref.util import setup_testing_defaults

HOST = "localhost:4000"
FORM = {"content-type": "application/x-www-form-urlencoded"}
OURS = {"sec-fetch-site": "same-origin"}


@dataclass(frozen=True)
class HttpResponse:
    """The response."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    seconds: float

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name), "")

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


@dataclass(frozen=True)
class HttpRequest:
    """One request: ``target`` is path and query, quoted; header names are lower case."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""


class AsgiClient:
    """Through ASGI."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._loop = asyncio.new_event_loop()

    def send(self, request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        sent = self._loop.run_until_complete(self._send(request))
        seconds = time.perf_counter() - started
        head = next(message for message in sent if message["type"] == "http.response.start")
        body = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in head["headers"]]
        return HttpResponse(head["status"], headers, body, seconds)

    def close(self) -> None:
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    async def _send(self, request: HttpRequest) -> list[dict[str, Any]]:
        path, _, query = request.target.partition("?")
        headers = {"host": HOST, **request.headers}
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": unquote_to_bytes(path).decode("utf-8", "replace"),
            "raw_path": path.encode("latin-1", "replace"),
            "query_string": query.encode("latin-1", "replace"),
            "root_path": "",
            "headers": [
                (name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()
            ],
            "client": ("127.0.0.1", 5000),
            "server": ("127.0.0.1", 4000),
        }
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": request.body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        return sent


class WsgiClient:
    """Through WSGI."""

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self._app = app

    def send(self, request: HttpRequest) -> HttpResponse:
        path, _, query = request.target.partition("?")
        environ: dict[str, Any] = {
            "REQUEST_METHOD": request.method,
            "SCRIPT_NAME": "",
            "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
            "RAW_URI": request.target,
            "QUERY_STRING": query,
            "REMOTE_ADDR": "127.0.0.1",
            "CONTENT_LENGTH": str(len(request.body)),
            "wsgi.input": io.BytesIO(request.body),
        }
        setup_testing_defaults(environ)
        for name, value in {"host": HOST, **request.headers}.items():
            key = name.upper().replace("-", "_")
            environ[key if key == "CONTENT_TYPE" else f"HTTP_{key}"] = value
        heads: list[tuple[str, list[tuple[str, str]]]] = []

        def start(status: str, headers: list[tuple[str, str]], _error: object = None) -> None:
            heads.append((status, headers))

        started = time.perf_counter()
        pieces = self._app(environ, start)
        body = b"".join(pieces)
        seconds = time.perf_counter() - started
        if callable(close := getattr(pieces, "close", None)):
            close()
        status, headers = heads[-1]
        return HttpResponse(int(status.split()[0]), [(name.lower(), value) for name, value in headers], body, seconds)


class HttpClient:
    """Over the network, with one persistent connection."""

    def __init__(self, port: int, *, timeout_seconds: float = 60.0) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_seconds)

    def send(self, request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        try:
            response = self._asked(request)
        except (http.client.RemoteDisconnected, ConnectionError):
            # A server closes connections that are idle for some seconds. Repeat the request, as browsers do.
            self._connection.close()
            response = self._asked(request)
        body = response.read()
        seconds = time.perf_counter() - started
        headers = [(name.lower(), value) for name, value in response.getheaders()]
        return HttpResponse(response.status, headers, body, seconds)

    def _asked(self, request: HttpRequest) -> http.client.HTTPResponse:
        self._connection.request(request.method, request.target, request.body or None, dict(request.headers))
        return self._connection.getresponse()

    def get(self, target: str) -> HttpResponse:
        return self.send(HttpRequest("GET", target, {"accept": "text/html"}))

    def data(self, target: str) -> dict[str, Any]:
        """Return the page as JSON."""
        reply = self.send(HttpRequest("GET", target, {"accept": "application/json"}))
        return json.loads(reply.body) if reply.status == 200 else {}

    def post(self, target: str, **fields: str) -> HttpResponse:
        """Send the request of a button."""
        headers = {**FORM, **OURS, "accept": "application/json"}
        return self.send(HttpRequest("POST", target, headers, urlencode(fields).encode()))

    def close(self) -> None:
        self._connection.close()
