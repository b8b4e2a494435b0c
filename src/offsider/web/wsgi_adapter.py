"""The web UI as a WSGI application: each request runs in the server's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, TypeAlias
from urllib.parse import quote

from offsider.screens.errors import BadRequest, ScreenError
from offsider.web.app import WebApp
from offsider.web.asgi_adapter import PATH_LETTERS
from offsider.web.request import INCOMPLETE, LARGEST_BODY_BYTES, TOO_LARGE, Request
from offsider.web.results import TooLarge

Environ: TypeAlias = dict[str, Any]
StartResponse: TypeAlias = Callable[[str, list[tuple[str, str]]], Any]


class WsgiApp:
    """Handle HTTP requests through WSGI."""

    def __init__(self, app: WebApp) -> None:
        self.app = app

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        response = self.app.respond(request_of(environ, _body(environ)))
        start_response(f"{response.status} {HTTPStatus(response.status).phrase}", list(response.headers))
        return [response.body]


def request_of(environ: Environ, body: bytes | ScreenError) -> Request:
    """Build the request of an environ with its body, or with the reason to refuse it."""
    return Request(
        method=environ["REQUEST_METHOD"],
        path=_quoted(environ.get("PATH_INFO", "")) or "/",
        root=_quoted(environ.get("SCRIPT_NAME", "")).rstrip("/"),
        query=environ.get("QUERY_STRING", ""),
        headers=_headers(environ),
        body=body if isinstance(body, bytes) else b"",
        scheme=environ.get("wsgi.url_scheme", "http"),
        client=environ.get("REMOTE_ADDR", ""),
        context=environ,
        refusal=None if isinstance(body, bytes) else body,
    )


def _quoted(path: str) -> str:
    # WSGI passes bytes decoded as latin-1.
    return quote(path.encode("latin-1"), safe=PATH_LETTERS.replace("%", ""))


def _headers(environ: Environ) -> dict[str, str]:
    headers = {name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")}
    named = {"content-type": environ.get("CONTENT_TYPE"), "content-length": environ.get("CONTENT_LENGTH")}
    return headers | {name: value or "" for name, value in named.items()}


def _body(environ: Environ) -> bytes | ScreenError:
    if environ["REQUEST_METHOD"] != "POST":
        return b""
    length = environ.get("CONTENT_LENGTH") or ""
    if not length.isdecimal():
        # Only some servers decode chunks; others would wait for the end of the connection.
        length = str(LARGEST_BODY_BYTES + 1) if environ.get("wsgi.input_terminated") and not length else "0"
    elif len(length) > 10 or int(length) > LARGEST_BODY_BYTES:
        return TooLarge(TOO_LARGE)
    try:
        body: bytes = environ["wsgi.input"].read(int(length)) if int(length) else b""
    except Exception:  # noqa: BLE001  # each server has its own errors for a connection that was cut off
        return BadRequest(INCOMPLETE)
    return body if len(body) <= LARGEST_BODY_BYTES else TooLarge(TOO_LARGE)
