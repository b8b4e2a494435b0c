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

from offsider.config.addresses import NOW
from offsider.config.installation import Installation
from offsider.core.error_text import describe
from offsider.core.segments import from_segment
from offsider.inspector.findings import refresh
from offsider.screens import audit, counters
from offsider.screens.errors import BadRequest, NotFound, ScreenError
from offsider.screens.request import SELECTED
from offsider.screens.translation import english
from offsider.web import flash, origins, rendering
from offsider.web.assets import own_assets
from offsider.web.extension_tabs import tab_assets, tab_routes
from offsider.web.layout import tab_of
from offsider.web.page_request import QUESTION, PageRequest, WebOptions
from offsider.web.pages import routes
from offsider.web.request import ALWAYS, FOR_EVER, Fields, Request, Response, form_fields, query_fields
from offsider.web.results import ActionResult, Answer, Crowded, Forbidden, NotAllowed, Page
from offsider.web.routing import Match, Router

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
        return {
            name: Router([*own, *tab_routes(installation, own)]) for name, installation in self.options.servers.items()
        }

    def warm(self) -> None:
        """Compile all templates and find all pages now. ConfigurationError if a tab has the path of another page."""
        rendering.warm()
        _ = self._routers

    def respond(self, request: Request, wait: Wait = run) -> Response:
        """Return the response to a request; never raises."""
        try:
            response = self._admitted(request, wait)
        except ScreenError as error:
            _log_refusal(request, self._action(request), error)
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
        """Check everything that does not depend on the user. Raises a ScreenError."""
        options = self.options
        if options.check_host and not origins.is_known(request.header("host"), options.allowed_hosts):
            raise Forbidden(
                f"unknown host name {audit.shown(origins.host_of(request.header('host')))!r}: to allow it, run "
                "offsider web --allowed-host NAME, or pass allowed_hosts= where the web UI is mounted"
            )
        if options.only_local and not origins.is_direct_and_local(request):
            raise Forbidden(_ONLY_LOCAL)
        if request.method not in METHODS:
            raise NotAllowed("error.methods", ", ".join(METHODS), methods=", ".join(METHODS))
        if _FOREIGN.match(request.path):
            raise NotFound("error.no_page")
        if len(request.path) + len(request.query) > LONGEST_ADDRESS:
            raise BadRequest(f"the address is longer than {LONGEST_ADDRESS} characters")
        if request.refusal is not None:
            raise request.refusal
        if request.method == "POST" and not origins.is_same_origin(request):
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
        except ScreenError:
            return request.method

    def _page_request(self, request: Request, who: str) -> PageRequest:
        server, location = self._server(request.path or "/")
        return PageRequest(
            http=request,
            options=self.options,
            server=server,
            location=location,
            query=query_fields(request.query),
            form=form_fields(request) if request.method == "POST" else Fields(),
            locale=english(),
            who=who,
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
        """Run the page or the action. Raises a ScreenError, or any error of the page."""
        found = self._routers[page_request.server].match(
            page_request.http.method, page_request.location, page_request.http.header("accept")
        )
        page_request = page_request.at(found.parts)
        if not found.route.changes:
            return self._view(page_request, found)
        try:
            answer = self._act(page_request, found)
        except Exception as error:
            _note_failure(page_request, found.route.action, error)
            raise
        if isinstance(answer, ActionResult):
            _note_result(page_request, found.route.action, answer)
            counters.forget(page_request.installation)
            if page_request.came_from == NOW:  # the finding that it was about may be gone
                refresh(page_request.installation)
                answer = replace(answer, to=NOW)
            return replace(answer, headers=(*answer.headers, flash.cookie(page_request, answer.message)))
        return answer

    def _view(self, page_request: PageRequest, found: Match) -> Answer:
        try:
            self._check_may(page_request, found)
        except Forbidden as error:
            _log_refusal(page_request.http, found.route.action, error, who=page_request.who, server=page_request.server)
            raise
        return found.route.handler(page_request)

    def _act(self, page_request: PageRequest, found: Match) -> Answer:
        if page_request.read_only:
            raise Forbidden("error.read_only")
        self._check_may(page_request, found)
        page_request.check_fields(found.route.fields)
        if not page_request.is_confirmed:
            question = page_request.form.get(QUESTION)[:500]
            if question:
                chosen = str(len(page_request.form.all(SELECTED)))
                return _question(page_request, question.replace("{number}", chosen))
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


def _note_result(request: PageRequest, action: str, result: ActionResult) -> None:
    """Log what an action did; and record it, a bulk action after its last step."""
    outcome, sent, subject = str(result.message), request.form.pairs, _subject(request)
    _log(request, action, outcome)
    audit.result(request.installation, action, outcome, result.data, sent, who=request.actor, subject=subject)


def _note_failure(request: PageRequest, action: str, error: Exception) -> None:
    """Log and record why an action failed or was refused."""
    _log(request, action, f"failed: {describe(error)}")
    if request.read_only:  # any visitor could fill the event log
        return
    # Any other error may quote arguments of a job.
    reason = str(error) if isinstance(error, ScreenError) else f"internal error: {type(error).__name__}"
    sent = audit.filter_of(request.form.pairs)
    audit.failed(request.installation, action, reason, who=request.actor, subject=_subject(request), filter=sent)


def _subject(request: PageRequest) -> str:
    return audit.shown(" ".join(request.parts.values()) or request.location.split("/")[1])


def _log(request: PageRequest, action: str, outcome: str) -> None:
    target, client = audit.target_of(request.location, request.form.pairs), request.http.client
    audit.log(action, outcome, who=request.who, target=target, server=request.server, client=client)


def _log_refusal(request: Request, action: str, error: ScreenError, *, who: str = "", server: str = "") -> None:
    """Log a request that was refused. It is no event: a stranger could fill the event log.

    Args:
        action: the name of the action, or the HTTP method if the route is unknown.
        who: the user's name; empty before authentication.
        server: the server of the page; empty before it is known.
    """
    audit.log(action, f"refused: {error}", who=who, target=request.path, server=server, client=request.client)


def _question(page_request: PageRequest, question: str) -> Page:
    """Return a confirmation form that repeats the request, for browsers without our script."""
    fields = [[name, value] for name, value in page_request.form.pairs if name != "confirmed"]
    back = page_request.came_from or tab_of(page_request.installation, page_request.location) or "/"
    data = {"question": question, "action": page_request.location, "fields": fields, "back": back}
    return Page("confirm", "common.are_you_sure", data)


class Bulkhead:
    """Up to as many concurrent requests per server as its pool has connections; more are refused with 503.

    All servers share the threads. With a single server there is no limit.
    """

    def __init__(self, servers: Mapping[str, Installation]) -> None:
        sizes = {name: max(1, installation.settings.client_pool_size) for name, installation in servers.items()}
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
