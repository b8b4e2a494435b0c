"""Turn a request into a response, independent of ASGI or WSGI.

1. Check the host, the size of the body and the origin of a change; then authenticate.
2. Find the asset or the route, and authorize the user.
3. Call the page's function, and render its answer as HTML or JSON.
4. Turn every error into a response too, and add the same headers to each response.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from inspect import isawaitable
from typing import Any, TypeAlias, cast
from urllib.parse import unquote

from offsider.config.installation import Installation
from offsider.core.error_text import describe
from offsider.web import allowed_hosts, audit, counters, flash, rendering, templates
from offsider.web.assets import own_assets
from offsider.web.csrf import is_same_origin
from offsider.web.extension_tabs import tab_assets, tab_routes
from offsider.web.layout import tab_of
from offsider.web.options import WebOptions
from offsider.web.page_request import AUTO, QUESTION, THEME_COOKIE, THEMES, PageRequest
from offsider.web.pages import routes
from offsider.web.request import ALWAYS, FOR_EVER, Fields, Request, Response, form_fields, query_fields
from offsider.web.results import (
    ActionResult,
    Answer,
    BadRequest,
    Crowded,
    Forbidden,
    Message,
    NotAllowed,
    NotFound,
    Page,
    WebError,
)
from offsider.web.routing import Match, Router
from offsider.web.segments import from_segment
from offsider.web.translation import english

#: Messages before authentication are in English: they are for the operator.
_ONLY_LOCAL = (
    "the web UI has no authentication, so it accepts requests only from this machine: configure authentication to "
    "allow others"
)
METHODS = ("GET", "HEAD", "POST")
ASSETS = "/assets/"
LONGEST_ADDRESS = 8192
#: Paths that would lead to another host as a link, such as ``//evil.com``. Browsers treat a backslash like a slash.
_FOREIGN = re.compile(r"/*(/|\\|%5c){2}|[^/]|.*[\s\x00-\x1f\\]", re.IGNORECASE)
#: Waits in a thread for the result of an async hook.
Wait: TypeAlias = Callable[[Awaitable[Any]], Any]
#: Maximum wait for a free slot.
TIMEOUT_SECONDS = 0.25


def run(awaitable: Awaitable[Any]) -> Any:
    """Run an awaitable without an event loop."""
    return asyncio.run(cast("Coroutine[Any, Any, Any]", awaitable))


class WebApp:
    """The web UI of one or several servers. Thread-safe.

    Args:
        options: access and display options.
    """

    def __init__(self, options: WebOptions) -> None:
        self.options = options
        self._bulkhead = Bulkhead(options.servers)

    @cached_property
    def _routers(self) -> dict[str, Router]:
        """The pages by server. At the first request: an application may mount the UI before it installs extensions."""
        own = routes()
        return {name: Router([*own, *tab_routes(here, own)]) for name, here in self.options.servers.items()}

    def warm(self) -> None:
        """Compile all templates and find all pages now. ConfigurationError if a tab has the path of another page."""
        templates.warm()
        _ = self._routers

    def respond(self, request: Request, wait: Wait = run) -> Response:
        """Return the response to a request; never raises."""
        try:
            response = self._admitted(request, wait)
        except WebError as error:
            audit.refused(request, self._action(request), error)
            response = rendering.plain(error, request, self.options.challenge)
        except Exception as error:  # noqa: BLE001  # the client gets an error page, and the log the traceback
            response = rendering.broken(error, request)
        length = ("content-length", str(len(response.body)))
        body = b"" if request.method == "HEAD" else response.body
        return Response(response.status, body, (*response.headers, *ALWAYS, length))

    def _admitted(self, request: Request, wait: Wait) -> Response:
        self._check(request)
        who = self._who(request, wait)
        if request.path.startswith(ASSETS):
            return self._asset(request)
        page_request = self._page_request(request, who)
        try:
            with self._bulkhead.slot(page_request.server):
                return rendering.response(page_request, partial(self._handle, page_request))
        except Crowded as error:
            return rendering.refused(page_request, error)

    def _check(self, request: Request) -> None:
        """Check everything that does not depend on the user. Raises a WebError."""
        options = self.options
        if options.check_host and not allowed_hosts.is_known(request.header("host"), options.allowed_hosts):
            raise Forbidden(
                f"unknown host name {audit.shown(allowed_hosts.host_of(request.header('host')))!r}: to allow it, run "
                "offsider web --allowed-host NAME, or pass allowed_hosts= where the web UI is mounted"
            )
        if options.only_local and not allowed_hosts.is_direct_and_local(request):
            raise Forbidden(_ONLY_LOCAL)
        if request.method not in METHODS:
            raise NotAllowed("error.methods", ", ".join(METHODS), methods=", ".join(METHODS))
        if _FOREIGN.match(request.path):
            raise NotFound("error.no_page")
        if len(request.path) + len(request.query) > LONGEST_ADDRESS:
            raise BadRequest(f"the address is longer than {LONGEST_ADDRESS} characters")
        if request.refusal is not None:
            raise request.refusal
        if request.method == "POST" and not is_same_origin(request):
            sent = {name: audit.shown(request.header(name)) or "-" for name in ("host", "origin", "sec-fetch-site")}
            raise Forbidden("error.cross_site", **{name.rpartition("-")[2]: value for name, value in sent.items()})

    def _who(self, request: Request, wait: Wait) -> str:
        if self.options.authenticate is None:
            return ""
        answer = self.options.authenticate(request)
        who: object = wait(answer) if isawaitable(answer) else answer
        if not isinstance(who, str) or not who:
            raise Unknown("authentication required")
        return who

    def _action(self, request: Request) -> str:
        """Return the action of a refused request, as far as its path shows it."""
        try:
            server, location = self._server(request.path)
            return self._routers[server].match(request.method, location, request.header("accept")).route.action
        except WebError:
            return request.method

    def _page_request(self, request: Request, who: str) -> PageRequest:
        server, location = self._server(request.path or "/")
        cookies = request.cookies
        theme = cookies.get(THEME_COOKIE, AUTO)
        return PageRequest(
            http=request,
            options=self.options,
            server=server,
            location=location,
            query=query_fields(request.query),
            form=form_fields(request) if request.method == "POST" else Fields(),
            locale=english(),
            who=who,
            theme=theme if theme in THEMES else AUTO,
        )

    def _server(self, path: str) -> tuple[str, str]:
        """Split a path into the server and the path below its pages, without a slash at its end."""
        path = path.rstrip("/") or "/"
        if not path.startswith("/@"):
            return self.options.first, path
        name, slash, rest = path[2:].partition("/")
        server = from_segment(unquote(name))
        if server not in self.options.servers:
            raise NotFound("error.no_server")
        return server, slash + rest or "/"

    def _handle(self, page_request: PageRequest) -> Answer:
        """Run the page or the action. Raises a WebError, or any error of the page."""
        found = self._routers[page_request.server].match(
            page_request.http.method, page_request.location, page_request.http.header("accept")
        )
        page_request = page_request.at(found.parts)
        if not found.route.changes:
            return self._view(page_request, found)
        try:
            answer = self._act(page_request, found)
        except Exception as error:
            audit.note(page_request, found.route.action, f"failed: {describe(error)}")
            raise
        if isinstance(answer, ActionResult):
            audit.note(page_request, found.route.action, str(answer.message))
            counters.forget(page_request.installation)
            return replace(answer, headers=(*answer.headers, flash.cookie(page_request, answer.message)))
        return answer

    def _view(self, page_request: PageRequest, found: Match) -> Answer:
        try:
            self._check_may(page_request, found)
        except Forbidden as error:
            audit.refused(
                page_request.http, found.route.action, error, who=page_request.who, server=page_request.server
            )
            raise
        return found.route.handler(page_request)

    def _act(self, page_request: PageRequest, found: Match) -> Answer:
        if page_request.read_only:
            raise Forbidden("error.read_only")
        self._check_may(page_request, found)
        page_request.check_fields(found.route.fields)
        if not page_request.is_confirmed:
            asks = found.route.asks
            question = asks(page_request) if asks is not None else _question_of_form(page_request)
            if question is not None:
                return _question(page_request, question)
        return found.route.handler(page_request)

    def _check_may(self, page_request: PageRequest, found: Match) -> None:
        if not page_request.is_authorized(found.route.action):
            raise Forbidden("error.not_authorized", action=found.route.action)

    def _asset(self, request: Request) -> Response:
        name = request.path.removeprefix(ASSETS)
        shelves = [own_assets(), *map(tab_assets, self.options.servers.values())]
        asset = next((found for shelf in shelves if (found := shelf.find(name))), None)
        if asset is None:
            raise NotFound("error.no_page")
        if request.method == "POST":
            raise NotAllowed("error.methods", "GET, HEAD", methods="GET, HEAD")
        return Response(200, asset.content, (("content-type", asset.media_type), FOR_EVER))


class Unknown(Forbidden):
    """The user is not authenticated."""

    status = 401


def _question_of_form(page_request: PageRequest) -> Message | None:
    text = page_request.form.get(QUESTION)[:500]
    return Message(text) if text else None


def _question(page_request: PageRequest, question: Message) -> Page:
    """Return a confirmation form that repeats the request, for browsers without our script."""
    fields = [[name, value] for name, value in page_request.form.pairs if name != "confirmed"]
    back = page_request.came_from or tab_of(page_request.installation, page_request.location) or "/"
    data = {"question": question.text(page_request.t), "action": page_request.location, "fields": fields, "back": back}
    return Page("confirm", "common.are_you_sure", data)


class Bulkhead:
    """Up to as many concurrent requests per server as its pool has connections; more are refused with 503.

    All servers share the threads. With a single server there is no limit.
    """

    def __init__(self, servers: Mapping[str, Installation]) -> None:
        sizes = {name: max(1, here.settings.client_pool_size) for name, here in servers.items()}
        self._free = {name: threading.BoundedSemaphore(size) for name, size in sizes.items()} if len(sizes) > 1 else {}

    @contextmanager
    def slot(self, server: str) -> Generator[None]:
        """Occupy a slot of a server. Raises Crowded if none is free in time."""
        free = self._free.get(server)
        if free is None:
            yield
            return
        if not free.acquire(timeout=TIMEOUT_SECONDS):
            raise Crowded("error.crowded")
        try:
            yield
        finally:
            free.release()
