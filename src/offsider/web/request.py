"""HTTP requests and responses, independent of ASGI and WSGI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any

LARGEST_BODY_BYTES = 64 * 1024


@dataclass(frozen=True)
class Request:
    """An HTTP request, passed to the authentication hook.

    Attributes:
        method: in uppercase.
        path: path below ``root``, quoted, as sent.
        root: mount path, quoted; empty at the root.
        query: query string as sent.
        headers: by lowercase name; the last value of repeated headers.
        body: at most 64 KB.
        scheme: ``http`` or ``https``.
        client: client address; empty if unknown.
        context: ASGI scope or WSGI environ, for data of a framework such as the session or user.
        too_large: the body exceeds 64 KB; then ``body`` is empty.
    """

    method: str
    path: str
    root: str = ""
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    scheme: str = "http"
    client: str = ""
    context: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    too_large: bool = False

    def header(self, name: str) -> str:
        """Return the value of a header; empty if missing."""
        return self.headers.get(name, "")

    @property
    def wants_json(self) -> bool:
        """Whether the ``Accept`` header asks for JSON and not for HTML."""
        accept = self.header("accept").lower()
        return "application/json" in accept and "text/html" not in accept

    @property
    def cookies(self) -> Mapping[str, str]:
        """The cookies by name; empty if they cannot be parsed."""
        try:
            return {name: morsel.value for name, morsel in SimpleCookie(self.header("cookie")).items()}
        except CookieError:
            return {}


@dataclass(frozen=True)
class Response:
    """An HTTP response."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()

    def with_headers(self, *more: tuple[str, str]) -> Response:
        """Return the response with additional headers."""
        return Response(self.status, self.body, (*self.headers, *more))
