"""From what a page answered, or from what went wrong, to HTML, JSON or text."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

from offsider.core.errors import RedisFailure
from offsider.web import audit, said
from offsider.web.answers import Answer, Done, NotAllowed, Page, Text, WebError
from offsider.web.counters import counters
from offsider.web.headers import NO_STORE
from offsider.web.layout import layout_of
from offsider.web.request import Request, Response
from offsider.web.templates import render
from offsider.web.translation import preferred
from offsider.web.visit import LOCALE_COOKIE
from offsider.web.whole_paths import with_base
from offsider.web.words import Words
from offsider.wiring.logs import describe

if TYPE_CHECKING:
    from offsider.inspector import Stats
    from offsider.web.visit import Visit

log = logging.getLogger("offsider.web")
HTML = ("content-type", "text/html; charset=utf-8")
JSON = ("content-type", "application/json")
PLAIN = ("content-type", "text/plain; charset=utf-8")
RETRY_AFTER = ("retry-after", "2")
VARY = ("vary", "Accept, Accept-Language, Cookie")
#: What the page of an error is called.
TITLES = {
    400: "That is not understood",
    403: "Not allowed",
    404: "Not found",
    405: "Not allowed",
    413: "Too large",
    500: "Something is broken",
    503: "Redis does not answer",
}


class Answering:
    """Makes responses."""

    def response(self, visit: Visit, page: Callable[[], Answer]) -> Response:
        """What ``page`` answers as a response; its errors as pages."""
        try:
            return self._written(visit, page())
        except WebError as error:
            allow = (("allow", error.allowed),) if isinstance(error, NotAllowed) else ()
            return self._written(visit, _error_page(visit, error.status, error.words)).with_headers(*allow)
        except RedisFailure as error:
            log.warning("%s cannot be shown: %s", audit.shown(visit.location), describe(error))
            return self._failed(visit, Words(str(error)))
        except Exception as error:  # noqa: BLE001  # whoever asked gets an answer, and the log the reason
            return self._broken(visit, error)

    def refused(self, visit: Visit, error: WebError) -> Response:
        """An error that comes before the server is asked anything: its page has no counters."""
        return _shown(visit, _error_page(visit, error.status, error.words)).with_headers(RETRY_AFTER)

    def plain(self, error: WebError, request: Request, challenge: str = "") -> Response:
        """An error before anything is known of the visitor: text in the browser's language, or JSON."""
        status = 403 if error.status == 401 and not challenge else error.status
        response = _plain(error, request, status)
        if isinstance(error, NotAllowed):
            return response.with_headers(("allow", error.allowed))
        return response.with_headers(("www-authenticate", challenge)) if status == 401 else response

    def broken(self, error: Exception, request: Request) -> Response:
        """What nobody thought of: the log says everything, the visitor gets a number to find it by."""
        return Response(500, f"{_noted(error, request)}\n".encode(), (PLAIN, NO_STORE))

    def _broken(self, visit: Visit, error: Exception) -> Response:
        """The same as a page; as text when it is the page that is broken."""
        words = _noted(error, visit.request)
        try:
            return _shown(visit, _error_page(visit, 500, words))
        except Exception as again:  # noqa: BLE001  # it shall not hide the first one
            return self.broken(again, visit.request)

    def _failed(self, visit: Visit, words: Words) -> Response:
        return _shown(visit, _error_page(visit, 503, words)).with_headers(RETRY_AFTER)

    def _written(self, visit: Visit, answer: Answer) -> Response:
        match answer:
            case Text():
                return Response(answer.status, answer.body.encode(), (("content-type", answer.media_type), NO_STORE))
            case Done() if visit.wants_json:
                return _json(200, {"done": str(answer.message), **answer.data}, visit.base)
            case Done():
                return Response(303, b"", (("location", _address(visit.url(answer.to))), NO_STORE, *answer.headers))
            case Page() if visit.wants_json:
                return _json(answer.status, answer.data, visit.base)
            case Page():
                return _html(visit, answer, _counters(visit))


def _plain(error: WebError, request: Request, status: int) -> Response:
    if request.wants_json:
        return _json(status, {"error": str(error), "status": status}, "")
    locale = preferred(request.cookies.get(LOCALE_COOKIE, ""), request.header("accept-language"))
    return Response(status, f"{error.words.said(locale.translate)}\n".encode(errors="replace"), (PLAIN, NO_STORE))


def _noted(error: Exception, request: Request) -> Words:
    """What is said of an error that the log has under a number."""
    number = secrets.token_hex(4)
    log.error("%s %s failed (%s)", request.method, audit.shown(request.path), number, exc_info=error)
    return Words("Something is broken here. The log of the web process has the details under {number}.", number=number)


def _html(visit: Visit, page: Page, stats: Stats | None) -> Response:
    text = render(page.template, visit, layout_of(visit, page, stats), page.data)
    response = Response(page.status, text.encode(errors="replace"), (HTML, NO_STORE, VARY))
    return response.with_headers(said.forgetting(visit.request)) if said.kept(visit.request) else response


def _shown(visit: Visit, page: Page) -> Response:
    """A page without counters, because what is wrong may be that they cannot be read."""
    return _json(page.status, page.data, visit.base) if visit.wants_json else _html(visit, page, None)


def _counters(visit: Visit) -> Stats | None:
    """Those of every page; a page that says what is wrong has to do without."""
    try:
        return counters(visit.config)
    except RedisFailure:
        return None


def _address(url: str) -> str:
    """As a header can hold it, whatever letters a name in it has."""
    return quote(url, safe="/:?#@!$&'()*+,;=~%", errors="replace")


def _error_page(visit: Visit, status: int, words: Words) -> Page:
    message = str(words) if visit.wants_json else words.said(visit.t)
    return Page("error", TITLES.get(status, TITLES[500]), {"error": message, "status": status}, status)


def _json(status: int, data: Mapping[str, object], base: str) -> Response:
    text = json.dumps(with_base(base, data), allow_nan=False, ensure_ascii=False)
    return Response(status, text.encode(errors="replace"), (JSON, NO_STORE, VARY))
