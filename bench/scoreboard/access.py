"""Access control: requests from other sites, from strangers, without permission, and in read-only mode."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from itertools import product
from typing import Any
from urllib.parse import urlencode

from bench.scoreboard import web_pages
from bench.scoreboard.environment import Environment
from bench.scoreboard.http_clients import FORM, HOST, AsgiClient, HttpRequest, HttpResponse
from bench.scoreboard.row import Report, row
from bench.scoreboard.stored_data import StoredData, dumped, store_data
from bench.servers import Server
from offsider.core.segments import segment
from offsider.web import PageRequest, Request
from offsider.web.routing import Route
from tests.snapshot import everything

JSON = {"accept": "application/json"}
LOGIN = {"authorization": "Basic b2xnYTp3b3Jk"}
#: Origin of a request, and whether it may change data.
SITES: Mapping[str, tuple[Mapping[str, str], bool]] = {
    "Sec-Fetch-Site: same-origin": ({"sec-fetch-site": "same-origin"}, True),
    "Sec-Fetch-Site: same-site": ({"sec-fetch-site": "same-site", "origin": f"http://{HOST}"}, False),
    "Sec-Fetch-Site: cross-site": ({"sec-fetch-site": "cross-site", **LOGIN}, False),
    "Sec-Fetch-Site: none": ({"sec-fetch-site": "none"}, False),
    "own Origin": ({"origin": f"http://{HOST}"}, True),
    "foreign Origin": ({"origin": "https://evil.example", **LOGIN}, False),
    "Origin: null": ({"origin": "null", **LOGIN}, False),
    "neither": ({}, False),
    "neither, with Authorization": (LOGIN, True),
}


#: Origins that the browser reports as other sites.
FOREIGN = ("Sec-Fetch-Site: same-site", "Sec-Fetch-Site: cross-site", "foreign Origin", "Origin: null")
#: The confirmation of a bulk action counts the jobs, and stores the count for an hour.
COUNTS = "offsider:counted:"
#: The refused and the failed actions of known users are events, too.
EVENTS = "offsider:events"
#: End of an action's address -> what makes the stored data fit the action.
PREPARED: Mapping[str, Callable[[Any, StoredData], object]] = {
    "/pause": lambda raw, _: raw.delete("paused"),
    "/reopen": lambda raw, stored: raw.hset(f"offsider:errors:{stored.group}", "muted_until", stored.now + 3600),
    "/unmute": lambda raw, stored: raw.hset(
        "offsider:findings:muted", stored.finding, json.dumps({"until": stored.now + 3600, "who": "olga"})
    ),
    "/cancel": lambda raw, stored: raw.hset("offsider:owners", stored.identity, "[]"),
    **dict.fromkeys(
        ("/{subject}/quarantine", "/{subject}/delete"),
        lambda raw, stored: raw.rpush(f"offsider:held:{stored.name}", dumped(stored.job())),
    ),
}


def _nobody(_request: Request) -> None:
    return None


def _looks_alone(_request: PageRequest, action: str) -> bool:
    return action == "page"


#: Configurations of the pages in which no request may change data, regardless of its origin.
CLOSED: Mapping[str, Mapping[str, Any]] = {
    "nobody is known": {"authenticate": _nobody},
    "nothing is allowed": {"insecure": True, "authorize": _looks_alone},
    "read-only": {"insecure": True, "read_only": True},
}


@row(
    "R20",
    f"each action is requested from {len(SITES)} kinds of sites, without authentication, without authorization, and in "
    "read-only mode; each page is requested from all of them; the stored data is compared before and after",
    bar="forbidden changes 0, except the event of a refusal; changes by reading pages 0, except counts that the "
    "built-in pages request; each permitted action acts",
)
def gated(env: Environment, report: Report) -> None:
    server = env.server(persist=False)
    wrong: list[str] = []
    acted: set[str] = set()
    sent = 0
    with web_pages.overheard() as log, ExitStack() as stack:
        opened = stack.enter_context(closing(web_pages.asgi_pages(server, insecure=True)))
        asked = Asking(server, opened)
        for route, (site, (headers, welcome)) in product(web_pages.routes(), SITES.items()):
            reply, changed = asked.once(route, headers)
            sent += 1
            name = f"{route.method} {route.path}, {site}"
            if route.method == "GET":
                wrong += [f"{name}: {reply.status}"] if reply.status not in {200, 302, 303, 404} else []
                changed = [key for key in changed if site in FOREIGN or not key.startswith(COUNTS)]
                wrong += [f"{name}: changes {changed}"] if changed else []
            elif welcome:
                wrong += [f"{name}: refused with {reply.status}"] if reply.status in {401, 403} else []
                acted |= {route.path} if {*changed} - {EVENTS} else set()
            else:
                wrong += [f"{name}: {reply.status}"] if reply.status != 403 else []
                wrong += [f"{name}: changes {changed}"] if changed else []
        for why, options in CLOSED.items():
            asked = Asking(server, stack.enter_context(closing(web_pages.asgi_pages(server, **options))))
            for route in web_pages.routes():
                reply, changed = asked.once(route, {"sec-fetch-site": "same-origin"})
                sent += 1
                known = (COUNTS, EVENTS)[route.changes]
                changed = [key for key in changed if why == "nobody is known" or not key.startswith(known)]
                shut = route.changes or why == "nobody is known"
                wrong += [f"{route.path}, {why}: {reply.status}"] if shut and reply.status not in {401, 403} else []
                wrong += [f"{route.path}, {why}: changes {changed}"] if changed else []
    actions = {route.path for route in web_pages.routes() if route.changes}
    idle = sorted(actions - acted)
    report.nothing("wrong", wrong)
    report.nothing("errors in the log", log.kinds)
    report.nothing("actions without an effect", idle)
    report.figure("requests", f"{sent:,}")
    report.figure("actions", len(actions))


class Asking:
    """Sends single requests, and compares the stored data before and after each.

    Args:
        server: the server with the data.
        pages: the pages.
    """

    def __init__(self, server: Server, pages: AsgiClient) -> None:
        self._raw = server.raw
        self._pages = pages
        self._before: dict[str, Any] = {}
        self._stored: StoredData | None = None

    def once(self, route: Route, headers: Mapping[str, str]) -> tuple[HttpResponse, list[str]]:
        """Return the response, and the keys that have changed."""
        stored = self._stored_for(route)
        target = web_pages.targets_of(route, stored)[0]
        if route.method == "POST":
            body = urlencode(fields_for(route, stored)).encode()
            reply = self._pages.send(HttpRequest("POST", target, {**JSON, **(FORM if body else {}), **headers}, body))
        else:
            reply = self._pages.send(HttpRequest("GET", target, {**JSON, **headers}))
        after = everything(self._raw)
        changed = sorted(key for key in {*self._before, *after} if self._before.get(key) != after.get(key))
        if changed:
            self._stored = None
        return reply, changed

    def _stored_for(self, route: Route) -> StoredData:
        prepare = next((prepare for end, prepare in PREPARED.items() if route.path.endswith(end)), None)
        if self._stored is None or prepare is not None:
            self._raw.flushall()
            self._stored = store_data(self._raw, lambda field: field.replace("_", "-"))
            if prepare is not None:
                prepare(self._raw, self._stored)
            self._before = everything(self._raw)
        return self._stored


def fields_for(route: Route, stored: StoredData) -> list[tuple[str, str]]:
    """Return the form of an action: of these fields, those that it takes."""
    keys = [f"{segment(where)} {key}" for where, key in web_pages.places_of(stored)]
    fields = [
        *(("key", key) for key in keys),
        ("subject", stored.name),
        ("where", "quarantine" if route.path.endswith("/restore") else "all"),
        ("limit", "3"),
        ("hours", "1"),
        ("at", "2030-01-01T00:00:00Z"),
        *((("args", "[2]"), ("kwargs", "{}")) if "kwargs" in route.fields else ()),
        ("every", "yes"),
        *((("name", "paid"), ("value", "7")) if route.path.endswith("/signal") else ()),
    ]
    return [(field, value) for field, value in fields if field in route.fields]
