"""HTTP requests, their fields, and responses with their headers, independent of ASGI and WSGI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl

from offsider.screens.errors import BadRequest, ScreenError

LARGEST_BODY_BYTES = 64 * 1024
TOO_LARGE = f"the request is larger than {LARGEST_BODY_BYTES // 1024} KB"
#: Maximum wait for the body; less than `offsider web` waits before it closes a connection.
BODY_SECONDS = 8.0
INCOMPLETE = (
    "the form has not arrived as its headers announce it: the connection was cut off or too slow, or the application "
    "has read the form before the web UI"
)
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
MAX_QUERY_FIELDS = 100
MAX_FORM_FIELDS = 1000
FORM_TYPE = "application/x-www-form-urlencoded"
_FORM_TYPES = (FORM_TYPE, f"{FORM_TYPE};charset=utf-8", f'{FORM_TYPE};charset="utf-8"')


@dataclass(frozen=True)
class Request:
    """An HTTP request, passed to the authentication hook.

    Attributes:
        method: in uppercase.
        path: path below ``root``, quoted, as sent.
        root: mount path, quoted; empty at the root.
        query: query string as sent.
        headers: by lowercase name; the last value of repeated headers.
        body: at most 64 KB, as received; empty for other methods than POST.
        scheme: ``http`` or ``https``.
        client: client address; empty if unknown.
        context: ASGI scope or WSGI environ, for data of a framework such as the session or user.
        refusal: why the request is refused before it reaches a page, such as a body that was not received whole.
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
    refusal: ScreenError | None = None

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
    return _parsed(text, MAX_QUERY_FIELDS)


def form_fields(request: Request) -> Fields:
    """Parse a submitted form. A body that is not there as announced is an error, never an empty form.

    Raises:
        BadRequest: the body was not received whole, is not URL-encoded UTF-8, or has more than 1,000 fields.
    """
    if not _is_whole(request):
        raise BadRequest(INCOMPLETE)
    kind = request.header("content-type").lower().replace(" ", "").rstrip(";")
    if not request.body and not kind:
        return Fields()
    if kind not in _FORM_TYPES or request.header("content-encoding").strip().lower() not in {"", "identity"}:
        raise BadRequest(f"the form must be sent as {FORM_TYPE}, in UTF-8 and not compressed")
    try:
        return _parsed(request.body.decode(), MAX_FORM_FIELDS, errors="strict")
    except UnicodeDecodeError as error:
        raise BadRequest("the form is not valid UTF-8") from error


def _is_whole(request: Request) -> bool:
    length = request.header("content-length").strip()
    if length:
        return length.lstrip("0") == str(len(request.body)).lstrip("0")
    # Chunked, or HTTP/2: only the server knows the end. A server without support for chunks passes no body, and a body
    # that the application has read is empty too.
    return bool(request.body or not (request.header("content-type") or request.header("transfer-encoding")))


def _parsed(text: str, most: int, *, errors: str = "replace") -> Fields:
    if text.count("&") >= most:
        raise BadRequest(f"more than {most} fields: split them into several requests")
    return Fields(parse_qsl(text, keep_blank_values=True, errors=errors))
