"""Turn the answer of a page, or an error, into HTML, JSON or text."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from offsider.core.error_text import describe
from offsider.core.errors import RedisFailure
from offsider.inspector import Stats
from offsider.logs.setup import web_logger
from offsider.web import audit, flash
from offsider.web.counters import counters
from offsider.web.layout import layout_of
from offsider.web.request import NO_STORE, Request, Response
from offsider.web.results import ActionResult, Answer, Message, NotAllowed, Page, Text, WebError
from offsider.web.templates import render

if TYPE_CHECKING:
    from offsider.web.page_request import PageRequest

HTML = ("content-type", "text/html; charset=utf-8")
JSON = ("content-type", "application/json")
PLAIN = ("content-type", "text/plain; charset=utf-8")
RETRY_AFTER = ("retry-after", "2")
VARY = ("vary", "Accept, Accept-Language, Cookie")
#: Titles of error pages by HTTP status.
TITLES = {
    400: "error.title_400",
    403: "error.title_403",
    404: "error.title_404",
    405: "error.title_405",
    413: "error.title_413",
    500: "error.title_500",
    503: "error.title_503",
}
# Pages return paths relative to a server's root. Templates complete them with `url`; for JSON `with_base` does.
#: Keys whose value is a path, besides those ending in ``_path``.
_PATHS = frozenset({"path", "action", "back", "start", "previous", "next", "end", "more"})
#: Keys whose value is a mapping of paths.
_OF_PATHS = frozenset({"actions", "orders", "sorts", "every", "selected", "samples", "periods", "without"})
#: Keys of mappings whose names are user data, so they are not checked.
_FOREIGN = frozenset({"fields", "values", "kept"})


def response(page_request: PageRequest, page: Callable[[], Answer]) -> Response:
    """Call ``page`` and return its answer, or an error page, as a response."""
    try:
        return _written(page_request, page())
    except WebError as error:
        allow = (("allow", error.allowed),) if isinstance(error, NotAllowed) else ()
        return _written(page_request, _error_page(page_request, error.status, error.message)).with_headers(*allow)
    except RedisFailure as error:
        web_logger.warning("cannot show %s: %s", audit.shown(page_request.location), describe(error))
        return _failed(page_request, Message(str(error)))
    except Exception as error:  # noqa: BLE001  # the client gets an error page, and the log the traceback
        return _broken(page_request, error)


def refused(page_request: PageRequest, error: WebError) -> Response:
    """Return the page of an error that occurs before any request to the server: without counters."""
    return _shown(page_request, _error_page(page_request, error.status, error.message)).with_headers(RETRY_AFTER)


def plain(error: WebError, request: Request, challenge: str = "") -> Response:
    """Return an error from before authentication: text in the browser's language, or JSON."""
    status = 403 if error.status == 401 and not challenge else error.status
    response = _plain(error, request, status)
    if isinstance(error, NotAllowed):
        return response.with_headers(("allow", error.allowed))
    return response.with_headers(("www-authenticate", challenge)) if status == 401 else response


def broken(error: Exception, request: Request) -> Response:
    """Return an internal error as text: the log has the traceback, the response its reference number."""
    return Response(500, f"{_logged(error, request)}\n".encode(), (PLAIN, NO_STORE))


def _broken(page_request: PageRequest, error: Exception) -> Response:
    """Return an internal error as a page, or as text if the error page fails too."""
    message = _logged(error, page_request.http)
    try:
        return _shown(page_request, _error_page(page_request, 500, message))
    except Exception as again:  # noqa: BLE001  # must not hide the first error
        return broken(again, page_request.http)


def _failed(page_request: PageRequest, message: Message) -> Response:
    return _shown(page_request, _error_page(page_request, 503, message)).with_headers(RETRY_AFTER)


def _written(page_request: PageRequest, answer: Answer) -> Response:
    match answer:
        case Text():
            return Response(answer.status, answer.body.encode(), (("content-type", answer.media_type), NO_STORE))
        case ActionResult() if page_request.wants_json:
            return _json(200, {"done": str(answer.message), **answer.data}, page_request.base)
        case ActionResult():
            return Response(303, b"", (("location", _address(page_request.url(answer.to))), NO_STORE, *answer.headers))
        case Page() if page_request.wants_json:
            return _json(answer.status, answer.data, page_request.base)
        case Page():
            return _html(page_request, answer, _counters(page_request))


def _plain(error: WebError, request: Request, status: int) -> Response:
    if request.wants_json:
        return _json(status, {"error": str(error), "status": status}, "")
    return Response(status, f"{error.message}\n".encode(errors="replace"), (PLAIN, NO_STORE))


def _logged(error: Exception, request: Request) -> Message:
    """Log an error under a random number, and return the message with this number."""
    number = secrets.token_hex(4)
    web_logger.error("internal error %s: %s %s", number, request.method, audit.shown(request.path), exc_info=error)
    return Message("error.broken", number=number)


def _html(page_request: PageRequest, page: Page, stats: Stats | None) -> Response:
    text = render(page.template, page_request, layout_of(page_request, page, stats), page.data)
    response = Response(page.status, text.encode(errors="replace"), (HTML, NO_STORE, VARY))
    return response.with_headers(flash.cleared(page_request.http)) if flash.message(page_request.http) else response


def _shown(page_request: PageRequest, page: Page) -> Response:
    """Render a page without counters, because reading the counters may be what failed."""
    return (
        _json(page.status, page.data, page_request.base) if page_request.wants_json else _html(page_request, page, None)
    )


def _counters(page_request: PageRequest) -> Stats | None:
    """Return the counters of every page; None if the server is unreachable."""
    try:
        return counters(page_request.installation)
    except RedisFailure:
        return None


def _address(url: str) -> str:
    """Quote a URL for a header."""
    return quote(url, safe="/:?#@!$&'()*+,;=~%", errors="replace")


def _error_page(page_request: PageRequest, status: int, message: Message) -> Page:
    text = str(message) if page_request.wants_json else message.text(page_request.t)
    return Page("error", TITLES.get(status, TITLES[500]), {"error": text, "status": status}, status)


def _json(status: int, data: Mapping[str, object], base: str) -> Response:
    text = json.dumps(with_base(base, data), allow_nan=False, ensure_ascii=False)
    return Response(status, text.encode(errors="replace"), (JSON, NO_STORE, VARY))


def with_base(base: str, data: Any) -> Any:
    """Return the data of a page with ``base`` prepended to each path."""
    if not base:
        return data
    if isinstance(data, Mapping):
        named = cast("Mapping[str, Any]", data)
        return {name: _member(base, name, value) for name, value in named.items()}
    if isinstance(data, list | tuple):
        return [with_base(base, each) for each in cast("list[Any]", data)]
    return data


def _member(base: str, name: str, value: Any) -> Any:
    if name in _PATHS or name.endswith("_path"):
        return _whole(base, value)
    if name in _OF_PATHS and isinstance(value, Mapping):
        paths = cast("Mapping[str, Any]", value)
        return {key: _whole(base, path) for key, path in paths.items()}
    return value if _is_foreign(name, value) else with_base(base, value)


def _is_foreign(name: str, value: object) -> bool:
    return name in _FOREIGN and isinstance(value, Mapping)


def _whole(base: str, path: Any) -> Any:
    # An empty path means that the page does not exist.
    return base + path if isinstance(path, str) and path.startswith("/") else path
