"""The web UI as a WSGI application: each request runs in the server's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, TypeAlias
from urllib.parse import quote

from offsider.web.app import WebApp
from offsider.web.asgi_adapter import PATH_LETTERS
from offsider.web.request import LARGEST_BODY_BYTES, Request

Environ: TypeAlias = dict[str, Any]
StartResponse: TypeAlias = Callable[[str, list[tuple[str, str]]], Any]


class WsgiApp:
    """Handle HTTP requests through WSGI."""

    def __init__(self, app: WebApp) -> None:
        self.app = app

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        response = self.app.respond(request_of(environ))
        start_response(f"{response.status} {HTTPStatus(response.status).phrase}", list(response.headers))
        return [response.body]


def request_of(environ: Environ) -> Request:
    """Build the request of an environ."""
    body = _body(environ)
    return Request(
        method=environ["REQUEST_METHOD"],
        path=_quoted(environ.get("PATH_INFO", "")) or "/",
        root=_quoted(environ.get("SCRIPT_NAME", "")).rstrip("/"),
        query=environ.get("QUERY_STRING", ""),
        headers=_headers(environ),
        body=body or b"",
        scheme=environ.get("wsgi.url_scheme", "http"),
        client=environ.get("REMOTE_ADDR", ""),
        context=environ,
        too_large=body is None,
    )


def _quoted(path: str) -> str:
    # WSGI passes bytes decoded as latin-1.
    return quote(path.encode("latin-1"), safe=PATH_LETTERS.replace("%", ""))


def _headers(environ: Environ) -> dict[str, str]:
    headers = {name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")}
    headers["content-type"] = environ.get("CONTENT_TYPE", "")
    return headers


def _body(environ: Environ) -> bytes | None:
    length = environ.get("CONTENT_LENGTH") or "0"
    if not length.isdecimal() or len(length) > 10 or int(length) > LARGEST_BODY_BYTES:
        return None
    body: bytes = environ["wsgi.input"].read(int(length)) if int(length) else b""
    return body
