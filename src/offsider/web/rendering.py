"""Turn the answer of a page, or an error, into HTML, JSON or text.

A template has ``data``, the data of the page, ``layout``, the frame of all pages, and some functions: ``t`` translates,
``url`` and ``this_page`` return addresses, ``asset`` returns the URL of a file, ``number``, ``moment``,
``span`` and ``long_text`` format values, and ``may`` returns whether to show a button.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

import jinja2

from offsider.config.addresses import ScreenPath
from offsider.core.error_text import describe
from offsider.core.errors import RedisFailure
from offsider.logs.setup import web_logger
from offsider.screens import audit
from offsider.screens.errors import ScreenError
from offsider.screens.messages import Message
from offsider.screens.plain import cut
from offsider.web import charts, display, flash
from offsider.web.assets import own_assets
from offsider.web.extension_tabs import may_post, tab_assets
from offsider.web.layout import layout_of
from offsider.web.request import NO_STORE, Request, Response
from offsider.web.results import RETRY_AFTER, ActionResult, Answer, Page, Redirect, Text

if TYPE_CHECKING:
    from offsider.web.page_request import PageRequest

FOLDER = Path(__file__).with_name("templates")
HTML = ("content-type", "text/html; charset=utf-8")
JSON = ("content-type", "application/json")
PLAIN = ("content-type", "text/plain; charset=utf-8")
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


def response(page_request: PageRequest, page: Callable[[], Answer]) -> Response:
    """Call ``page`` and return its answer, or an error page, as a response."""
    try:
        return _written(page_request, page())
    except ScreenError as error:
        return refused(page_request, error)
    except RedisFailure as error:
        web_logger.warning("cannot show %s: %s", audit.shown(page_request.location), describe(error))
        return _error_page(page_request, 503, Message(str(error)), RETRY_AFTER)
    except Exception as error:  # noqa: BLE001  # the client gets an error page, and the log the traceback
        message = _logged(error, page_request.http)
        try:
            return _error_page(page_request, 500, message)
        except Exception as again:  # noqa: BLE001  # must not hide the first error
            return broken(again, page_request.http)


def refused(page_request: PageRequest, error: ScreenError) -> Response:
    """Return the page of an error that a page raised, or that refused the request."""
    return _error_page(page_request, error.status, error.message, *error.headers)


def plain(error: ScreenError, request: Request, challenge: str = "") -> Response:
    """Return an error from before authentication: text in the browser's language, or JSON."""
    status = 403 if error.status == 401 and not challenge else error.status
    headers = (("www-authenticate", challenge),) if status == 401 else error.headers
    if request.wants_json:
        return _json(status, {"error": str(error), "status": status}, "").with_headers(*headers)
    return Response(status, f"{error.message}\n".encode(errors="replace"), (PLAIN, NO_STORE, *headers))


def broken(error: Exception, request: Request) -> Response:
    """Return an internal error as text: the log has the traceback, the response its reference number."""
    return Response(500, f"{_logged(error, request)}\n".encode(), (PLAIN, NO_STORE))


def _written(page_request: PageRequest, answer: Answer) -> Response:
    match answer:
        case Text():
            return Response(200, answer.body.encode(), (("content-type", answer.media_type), NO_STORE))
        case ActionResult() if page_request.wants_json:
            return _json(200, {"done": str(answer.message), **answer.data}, page_request.base)
        case ActionResult():
            return Response(303, b"", (("location", _address(page_request.url(answer.to))), NO_STORE, *answer.headers))
        case Redirect():
            return Response(302, b"", (("location", _address(page_request.url(answer.to))), NO_STORE))
        case Page():
            return _page(page_request, answer)


def _page(page_request: PageRequest, page: Page) -> Response:
    if page_request.wants_json:
        return _json(page.status, page.data, page_request.base)
    text = _rendered(page_request, page, layout_of(page_request, page))
    response = Response(page.status, text.encode(errors="replace"), (HTML, NO_STORE, VARY))
    return response.with_headers(flash.cleared(page_request.http)) if flash.message(page_request.http) else response


class _Last:
    """The last page of a server: an incident has many viewers, who get the same data within a second."""

    def __init__(self) -> None:
        self.kept: tuple[Page, Mapping[str, Any], str] | None = None


def _rendered(request: PageRequest, page: Page, layout: Mapping[str, Any]) -> str:
    last = request.installation.shared.get(_Last, _Last)
    if last.kept is not None and request.options.authorize is None:  # otherwise its buttons depend on the user
        seen, in_layout, text = last.kept
        if seen.data is page.data and seen.template == page.template and in_layout == layout:
            return text
    text = render(page.template, request, layout, page.data)
    last.kept = page, layout, text
    return text


def _error_page(page_request: PageRequest, status: int, message: Message, *headers: tuple[str, str]) -> Response:
    """Return an error page."""
    text = str(message) if page_request.wants_json else message.text(page_request.t)
    data = {"error": text, "status": status}
    return _page(page_request, Page("error", TITLES.get(status, TITLES[500]), data, status)).with_headers(*headers)


def _logged(error: Exception, request: Request) -> Message:
    """Log an error under a random number, and return the message with this number."""
    number = secrets.token_hex(4)
    web_logger.error("internal error %s: %s %s", number, request.method, audit.shown(request.path), exc_info=error)
    return Message("error.broken", number=number)


def _address(url: str) -> str:
    """Quote a URL for a header."""
    return quote(url, safe="/:?#@!$&'()*+,;=~%", errors="replace")


def _json(status: int, data: Mapping[str, object], base: str) -> Response:
    text = json.dumps(with_base(base, data), allow_nan=False, ensure_ascii=False)
    return Response(status, text.encode(errors="replace"), (JSON, NO_STORE, VARY))


def with_base(base: str, data: Any) -> Any:
    """Return the data of a page with ``base`` before each address; templates complete them with ``url``."""
    if isinstance(data, ScreenPath):
        return base + data
    if isinstance(data, Mapping):
        return {name: with_base(base, value) for name, value in cast("Mapping[str, Any]", data).items()}
    if isinstance(data, list | tuple):
        return [with_base(base, each) for each in cast("list[Any]", data)]
    return data


class KeysFirst(jinja2.Environment):
    """Look up keys before attributes: ``data.items`` is the value under that key, never a method of dict."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, dict) and attribute in obj:
            return obj[attribute]  # pyright: ignore[reportUnknownVariableType]
        return super().getattr(obj, attribute)


@cache
def environment() -> jinja2.Environment:
    """Return the template environment; all output is escaped."""
    made = KeysFirst(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    cast("dict[str, Any]", made.globals).update(charts=charts)
    return made


def warm() -> None:
    """Compile all templates now."""
    for name in environment().list_templates(extensions=["html"]):
        environment().get_template(name)


def render(template: str, request: PageRequest, layout: Mapping[str, Any], data: object) -> str:
    """Return the HTML of a page."""
    locale = request.locale

    def asset(name: str) -> str:
        shelf = own_assets() if name in own_assets() else tab_assets(request.installation)
        return f"{layout['root']}/assets/{shelf.name_of(name)}"

    return (
        environment()
        .get_template(f"{template}.html")
        .render(
            data=data,
            layout=layout,
            t=request.t,
            url=request.url,
            this_page=request.this_page,
            asset=asset,
            may=request.may,
            may_post=partial(may_post, request),
            number=locale.number,
            moment=partial(display.moment, locale),
            exact=display.exact,
            span=partial(display.span, locale),
            cut=cut,
            long_text=partial(display.long_text, locale),
        )
    )
