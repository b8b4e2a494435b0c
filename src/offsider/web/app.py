"""From a request to a response, whoever carries both.

1. The host, the size of the body and the origin of a change are looked at; then who asks.
2. A file of ours, or a route, is found; the visitor may do it, or is told that it may not.
3. The page's function runs and its answer becomes HTML or JSON.
4. Whatever goes wrong on the way becomes an answer too, and every answer gets the same headers.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from functools import partial
from inspect import isawaitable
from typing import Any, TypeAlias, cast
from urllib.parse import unquote

from offsider.web import audit, counters, hosts, said
from offsider.web.answering import Answering
from offsider.web.answers import (
    Answer,
    BadRequest,
    Crowded,
    Done,
    Forbidden,
    NotAllowed,
    NotFound,
    Page,
    TooLarge,
    WebError,
)
from offsider.web.assets import own_assets
from offsider.web.forms import form_fields, query_fields
from offsider.web.headers import ALWAYS, FOR_EVER
from offsider.web.options import WebOptions
from offsider.web.origin import is_same_origin
from offsider.web.pages import routes
from offsider.web.request import LARGEST_BODY_BYTES, Request, Response
from offsider.web.routing import Match, Router
from offsider.web.segments import from_segment
from offsider.web.tabs import tab_assets, tab_routes
from offsider.web.translation import preferred
from offsider.web.turns import Turns
from offsider.web.visit import AUTO, LOCALE_COOKIE, THEME_COOKIE, THEMES, Visit
from offsider.web.words import Words
from offsider.wiring.logs import describe

log = logging.getLogger("offsider.web")
#: What is said before anybody is known stays English: it is for who has set the pages up.
_ONLY_LOCAL = "without authentication these pages are for programs on the same machine"
#: The field of a form that holds what is asked before; buttons of extensions have it.
QUESTION = "offsider_question"
METHODS = ("GET", "HEAD", "POST")
ASSETS = "/assets/"
LONGEST_ADDRESS = 8192
#: As a link it would lead to another host: ``//evil.com``. Browsers take a backslash for a slash.
_FOREIGN = re.compile(r"/*(/|\\|%5c){2}|[^/]|.*[\s\x00-\x1f\\]", re.IGNORECASE)
#: Waits in a thread for what an async hook answers.
Wait: TypeAlias = Callable[[Awaitable[Any]], Any]


def run(awaitable: Awaitable[Any]) -> Any:
    """Wait for it where no event loop is."""
    return asyncio.run(cast("Coroutine[Any, Any, Any]", awaitable))


class WebApp:
    """The pages of one or several servers. Thread-safe.

    Args:
        options: who may see and do what.
    """

    def __init__(self, options: WebOptions) -> None:
        self.options = options
        own = routes()
        self._routers = {name: Router([*own, *tab_routes(config, own)]) for name, config in options.servers.items()}
        self._answering = Answering()
        self._turns = Turns(options.servers)

    def respond(self, request: Request, wait: Wait = run) -> Response:
        """The response to a request; never raises."""
        try:
            response = self._admitted(request, wait)
        except WebError as error:
            audit.refused(request, self._action(request), error)
            response = self._answering.plain(error, request, self.options.challenge)
        except Exception as error:  # noqa: BLE001  # whoever asked gets an answer, and the log the reason
            response = self._answering.broken(error, request)
        length = ("content-length", str(len(response.body)))
        body = b"" if request.method == "HEAD" else response.body
        return Response(response.status, body, (*response.headers, *ALWAYS, length))

    def _admitted(self, request: Request, wait: Wait) -> Response:
        self._check(request)
        who = self._who(request, wait)
        if request.path.startswith(ASSETS):
            return self._asset(request)
        visit = self._visit(request, who)
        try:
            with self._turns.turn(visit.server):
                return self._answering.response(visit, partial(self._visited, visit))
        except Crowded as error:
            return self._answering.refused(visit, error)

    def _check(self, request: Request) -> None:
        """What has to be so whoever it is; raises a WebError."""
        options = self.options
        if options.check_host and not hosts.is_known(request.header("host"), options.allowed_hosts):
            raise Forbidden(
                f"these pages are not served under the name {audit.shown(hosts.host_of(request.header('host')))!r}; "
                "if they shall be, allow it: offsider web --allowed-host NAME, or allowed_hosts= where they are mounted"
            )
        if options.only_local and not hosts.is_direct_and_local(request):
            raise Forbidden(_ONLY_LOCAL)
        if request.method not in METHODS:
            raise NotAllowed(f"the pages take {', '.join(METHODS)}", ", ".join(METHODS))
        if _FOREIGN.match(request.path):
            raise NotFound("There is no such page.")
        if len(request.path) + len(request.query) > LONGEST_ADDRESS:
            raise BadRequest(f"an address has at most {LONGEST_ADDRESS} letters")
        if request.too_large:
            raise TooLarge(f"a request holds at most {LARGEST_BODY_BYTES // 1024} KB")
        if request.method == "POST" and not is_same_origin(request):
            raise Forbidden("A change has to come from these pages themselves, or to bring an Authorization header.")

    def _who(self, request: Request, wait: Wait) -> str:
        if self.options.authenticate is None:
            return ""
        answer = self.options.authenticate(request)
        who: object = wait(answer) if isawaitable(answer) else answer
        if not isinstance(who, str) or not who:
            raise Unknown("who are you? These pages want to know")
        return who

    def _action(self, request: Request) -> str:
        """What a request that is refused would have done, as far as its path tells."""
        try:
            server, location = self._server(request.path)
            return self._routers[server].match(request.method, location, request.header("accept")).route.action
        except WebError:
            return request.method

    def _visit(self, request: Request, who: str) -> Visit:
        server, location = self._server(request.path or "/")
        cookies = request.cookies
        theme = cookies.get(THEME_COOKIE, AUTO)
        is_form = request.method == "POST"
        return Visit(
            request=request,
            options=self.options,
            server=server,
            location=location,
            query=query_fields(request.query),
            form=form_fields(request.header("content-type"), request.body if is_form else b""),
            locale=preferred(cookies.get(LOCALE_COOKIE, ""), request.header("accept-language")),
            who=who,
            theme=theme if theme in THEMES else AUTO,
        )

    def _server(self, path: str) -> tuple[str, str]:
        """The server that a path is about, and the path below its pages."""
        if not path.startswith("/@"):
            return self.options.first, path
        name, slash, rest = path[2:].partition("/")
        server = from_segment(unquote(name))
        if server not in self.options.servers:
            raise NotFound("There is no such server here.")
        return server, slash + rest or "/"

    def _visited(self, visit: Visit) -> Answer:
        """The answer of the page or the action; raises a WebError, or whatever the page does."""
        found = self._routers[visit.server].match(visit.request.method, visit.location, visit.request.header("accept"))
        visit = visit.at(found.parts)
        if not found.route.changes:
            return self._looked(visit, found)
        try:
            answer = self._acted(visit, found)
        except Exception as error:
            audit.note(visit, found.route.action, f"not done: {describe(error)}")
            raise
        if isinstance(answer, Done):
            audit.note(visit, found.route.action, str(answer.message))
            counters.forget(visit.config)
            return replace(answer, headers=(*answer.headers, said.keeping(visit, answer.message)))
        return answer

    def _looked(self, visit: Visit, found: Match) -> Answer:
        try:
            self._check_may(visit, found)
        except Forbidden as error:
            audit.refused(visit.request, found.route.action, error, who=visit.who, server=visit.server)
            raise
        return found.route.handler(visit)

    def _acted(self, visit: Visit, found: Match) -> Answer:
        if visit.read_only:
            raise Forbidden("These pages are read-only.")
        self._check_may(visit, found)
        if not visit.is_confirmed:
            said = found.route.confirm or visit.form.get(QUESTION)[:500]
            question = found.route.asks(visit) if found.route.asks is not None else Words(said)
            if str(question):
                return _question(visit, question)
        return found.route.handler(visit)

    def _check_may(self, visit: Visit, found: Match) -> None:
        if not visit.is_authorized(found.route.action):
            raise Forbidden("You may not do this here: {action}", action=found.route.action)

    def _asset(self, request: Request) -> Response:
        name = request.path.removeprefix(ASSETS)
        shelves = [own_assets(), *map(tab_assets, self.options.servers.values())]
        asset = next((found for shelf in shelves if (found := shelf.find(name))), None)
        if asset is None:
            raise NotFound("There is no such page.")
        if request.method == "POST":
            raise NotAllowed("This address takes {methods}.", "GET, HEAD", methods="GET, HEAD")
        return Response(200, asset.content, (("content-type", asset.media_type), FOR_EVER))


class Unknown(Forbidden):
    """Nobody that the application knows."""

    status = 401


def _question(visit: Visit, question: Words) -> Page:
    """A form that does the same once more, for browsers without our script."""
    fields = [[name, value] for name, value in visit.form.pairs if name != "confirmed"]
    data = {"question": question.said(visit.t), "action": visit.location, "fields": fields}
    return Page("confirm", "Are you sure?", data)
