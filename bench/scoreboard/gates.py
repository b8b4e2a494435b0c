"""Access control: requests from other sites, from strangers, without permission, and in read-only mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Any
from urllib.parse import urlencode

from bench.scoreboard import web_parts
from bench.scoreboard.furniture import Furniture, furnish
from bench.scoreboard.ground import Ground
from bench.scoreboard.row import Report, row
from bench.scoreboard.servers import Server
from bench.scoreboard.visits import FORM, HOST, AsgiVisits, Asked, Reply
from offsider.web import PageRequest, Request
from offsider.web.routing import Route

#: Command that reads a key of each type.
READERS: Mapping[bytes, Callable[[Any, bytes], object]] = {
    b"list": lambda pipeline, key: pipeline.lrange(key, 0, -1),
    b"set": lambda pipeline, key: pipeline.smembers(key),
    b"zset": lambda pipeline, key: pipeline.zrange(key, 0, -1, withscores=True),
    b"hash": lambda pipeline, key: pipeline.hgetall(key),
    b"string": lambda pipeline, key: pipeline.get(key),
}
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
    bar="forbidden changes 0; changes by reading pages 0, except counts that the built-in pages request; each "
    "permitted action acts",
)
def gated(ground: Ground, report: Report) -> None:
    server = ground.server(persist=False)
    wrong: list[str] = []
    acted: set[str] = set()
    sent = 0
    with web_parts.overheard() as log, ExitStack() as stack:
        opened = stack.enter_context(closing(web_parts.asgi_visits(server, insecure=True)))
        asked = Asking(server, opened)
        for route, site, (headers, welcome) in _each(SITES):
            reply, changed = asked.once(route, headers)
            sent += 1
            name = f"{route.method} {route.path}, {site}"
            if route.method == "GET":
                wrong += [f"{name}: {reply.status}"] if reply.status not in {200, 303, 404} else []
                changed = [key for key in changed if site in FOREIGN or not key.startswith(COUNTS)]
                wrong += [f"{name}: changes {changed}"] if changed else []
            elif welcome:
                wrong += [f"{name}: refused with {reply.status}"] if reply.status in {401, 403} else []
                acted |= {f"{route.path}"} if changed else set()
            else:
                wrong += [f"{name}: {reply.status}"] if reply.status != 403 else []
                wrong += [f"{name}: changes {changed}"] if changed else []
        for why, options in CLOSED.items():
            asked = Asking(server, stack.enter_context(closing(web_parts.asgi_visits(server, **options))))
            for route in web_parts.routes():
                reply, changed = asked.once(route, {"sec-fetch-site": "same-origin"})
                sent += 1
                shut = route.changes or why == "nobody is known"
                wrong += [f"{route.path}, {why}: {reply.status}"] if shut and reply.status not in {401, 403} else []
                wrong += [f"{route.path}, {why}: changes {changed}"] if changed else []
    actions = {route.path for route in web_parts.routes() if route.changes}
    idle = sorted(actions - acted)
    report.count(f"wrong 0, got {len(wrong)}: {wrong[:5]}" if wrong else "wrong 0", not wrong)
    report.count(f"errors in the log: {log.kinds}" if log.errors else "errors in the log 0", not log.errors)
    report.count(f"actions with an effect: all except {idle}" if idle else "each action has its effect", not idle)
    report.figure("requests", f"{sent:,}")
    report.figure("actions", len(actions))


def _each(sites: Mapping[str, tuple[Mapping[str, str], bool]]) -> Iterator[tuple[Route, str, Any]]:
    for route in web_parts.routes():
        for site, kind in sites.items():
            yield route, site, kind


class Asking:
    """Sends single requests, and compares the stored data before and after each.

    Args:
        server: the server with the data.
        visits: the pages.
    """

    def __init__(self, server: Server, visits: AsgiVisits) -> None:
        self._raw = server.raw
        self._visits = visits
        self._before: dict[str, Any] = {}
        self._furniture: Furniture | None = None

    def once(self, route: Route, headers: Mapping[str, str]) -> tuple[Reply, list[str]]:
        """Return the response, and the keys that have changed."""
        furniture = self._furnished(route)
        target = web_parts.target_of(route, furniture)
        if route.method == "POST":
            body = urlencode(fields_for(route, furniture)).encode()
            reply = self._visits.send(Asked("POST", target, {**JSON, **(FORM if body else {}), **headers}, body))
        else:
            reply = self._visits.send(Asked("GET", target, {**JSON, **headers}))
        after = everything(self._raw)
        changed = sorted(key for key in {*self._before, *after} if self._before.get(key) != after.get(key))
        if changed:
            self._furniture = None
        return reply, changed

    def _furnished(self, route: Route) -> Furniture:
        pauses = route.path.endswith("/pause")
        if self._furniture is None or pauses:
            self._raw.flushall()
            self._furniture = furnish(self._raw, lambda field: field.replace("_", "-"))
            self._raw.delete(*(["paused"] if pauses else ["nothing"]))
            self._before = everything(self._raw)
        return self._furniture


def everything(raw: Any) -> dict[str, Any]:
    """Return the contents of each key, read in one pipeline."""
    keys: list[bytes] = sorted(raw.keys())
    with raw.pipeline(transaction=False) as pipeline:
        for key in keys:
            pipeline.type(key)
        for key, kind in zip(keys, pipeline.execute(), strict=True):
            READERS[kind](pipeline, key)
        return {key.decode(): held for key, held in zip(keys, pipeline.execute(), strict=True)}


def fields_for(route: Route, furniture: Furniture) -> list[tuple[str, str]]:
    """Return the form of an action: of these fields, those that it takes."""
    name = route.path.split("/")[1]
    keys = furniture.keys.get(web_parts.SETS.get(name, ""), [])
    if name == "queues":
        keys = [f"{position}|{jid}" for position, jid in enumerate(furniture.jids)]
    fields = [
        *(("key", key) for key in keys[:3]),
        *((("subject", furniture.name),) if name == "controls" else ()),
        ("at", "2030-01-01T00:00:00Z"),
        ("every", "yes"),
        ("locale", "de"),
        ("theme", "dark"),
    ]
    return [(field, value) for field, value in fields if field in route.fields]
