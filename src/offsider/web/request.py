"""HTTP requests, their fields, and responses with their headers, independent of ASGI and WSGI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl

from offsider.web.results import BadRequest

LARGEST_BODY_BYTES = 64 * 1024
_POLICY = (
    ("default-src", "'none'"),
    ("script-src", "'self'"),
    ("style-src", "'self'"),
    ("img-src", "'self' data:"),
    ("connect-src", "'self'"),
    ("form-action", "'self'"),
    ("frame-ancestors", "'none'"),
    ("base-uri", "'none'"),
)
CONTENT_SECURITY_POLICY = "; ".join(f"{name} {value}" for name, value in _POLICY)
ALWAYS = (
    ("content-security-policy", CONTENT_SECURITY_POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "same-origin"),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)
#: Pages show job data, which may be secret and is soon outdated.
NO_STORE = ("cache-control", "private, no-store")
#: For assets, whose names contain a digest of the content.
FOR_EVER = ("cache-control", "public, max-age=31536000, immutable")
MOST_QUERY_FIELDS = 100
MOST_FORM_FIELDS = 1000
FORM_TYPE = "application/x-www-form-urlencoded"


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


class Fields:
    """Names and values in order; a name may occur several times."""

    def __init__(self, pairs: list[tuple[str, str]] | None = None) -> None:
        self.pairs = pairs or []

    def get(self, name: str, default: str = "") -> str:
        """Return the first value of a name."""
        return next((value for key, value in self.pairs if key == name), default)

    def all(self, name: str) -> list[str]:
        """Return all values of a name."""
        return [value for key, value in self.pairs if key == name]

    def __contains__(self, name: object) -> bool:
        return any(key == name for key, _ in self.pairs)


def query_fields(text: str) -> Fields:
    """Parse a query string. Raises BadRequest if it has too many fields."""
    return _parsed(text, MOST_QUERY_FIELDS)


def form_fields(content_type: str, body: bytes) -> Fields:
    """Parse a submitted form.

    Raises:
        BadRequest: it is not URL-encoded, or has more than 1,000 fields.
    """
    if not body:
        return Fields()
    if content_type.partition(";")[0].strip().lower() != FORM_TYPE:
        raise BadRequest(f"the form must be sent as {FORM_TYPE}")
    return _parsed(body.decode("utf-8", "replace"), MOST_FORM_FIELDS)


def _parsed(text: str, most: int) -> Fields:
    try:
        return Fields(parse_qsl(text, keep_blank_values=True, max_num_fields=most, errors="replace"))
    except ValueError as error:
        raise BadRequest(f"more than {most} fields: split them into several requests") from error
