"""One request as it came, whether through ASGI or WSGI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any

LARGEST_BODY_BYTES = 64 * 1024


@dataclass(frozen=True)
class Request:
    """What was asked for. An authentication hook gets it.

    Attributes:
        method: in capitals.
        path: below ``root``, quoted, as it was sent.
        root: the path that the pages are mounted at, quoted; empty at the root.
        query: the query string as it was sent.
        headers: by name in small letters; of several with one name the last.
        body: at most 64 KB.
        scheme: ``http`` or ``https``.
        client: the address that it came from; empty when unknown.
        context: the ASGI scope or the WSGI environ, for what a framework has left there: a session, a user.
        too_large: the body was larger; ``body`` is empty then.
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
        """A header's value; empty without it."""
        return self.headers.get(name, "")

    @property
    def wants_json(self) -> bool:
        """Whether its ``Accept`` header is that of a program."""
        accept = self.header("accept").lower()
        return "application/json" in accept and "text/html" not in accept

    @property
    def cookies(self) -> Mapping[str, str]:
        """The cookies by name; none when they cannot be read."""
        try:
            return {name: morsel.value for name, morsel in SimpleCookie(self.header("cookie")).items()}
        except CookieError:
            return {}


@dataclass(frozen=True)
class Response:
    """What is sent back."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()

    def with_headers(self, *more: tuple[str, str]) -> Response:
        """The same with further headers."""
        return Response(self.status, self.body, (*self.headers, *more))
