"""The pages of one server in this process, and their routes and fields, read from the code."""

from __future__ import annotations

import logging
import re
import time
import traceback
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import offsider.screens
import offsider.web.pages
from bench.scoreboard.environment import config_of
from bench.scoreboard.http_clients import AsgiClient, WsgiClient
from bench.scoreboard.stored_data import StoredData
from bench.servers import Server
from offsider import Config
from offsider.config.installation import Installation
from offsider.core.segments import segment
from offsider.screens.job_actions import ACTIONS
from offsider.screens.job_filters import FIELDS
from offsider.screens.job_lookup import jid_of
from offsider.web import asgi, wsgi
from offsider.web.extension_tabs import tab_routes
from offsider.web.routing import Route

_SOURCES = (Path(offsider.web.__file__).parent, Path(offsider.screens.__file__).parent)
_READ = re.compile(r"""request\.(?:number|choice|text|selected)\(\s*["']([a-z_]+)["']""")
_NUMBERS = re.compile(r"""request\.number\(\s*["']([a-z_]+)["']""")
_LISTED = (*FIELDS, "format", "confirm")
_PART = re.compile(r"\{([a-z_]+)\}")


class Overheard(logging.Handler):
    """Collects unexpected errors that the pages log, and where each was raised."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            self.errors.append(record.getMessage())
            return
        ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "offsider" in frame.filename]
        where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(ours[-2:]))
        self.errors.append(f"{error!r:.150} at {where}")

    @property
    def kinds(self) -> list[str]:
        """Return each error once, the most frequent first."""
        return [f"{count} x {what}" for what, count in Counter(self.errors).most_common(4)]


@contextmanager
def overheard() -> Generator[Overheard, None, None]:
    """Suppress log lines about hostile requests, and collect errors of the pages."""
    logger, handler = logging.getLogger("offsider.web"), Overheard()
    logger.addHandler(handler)
    before = logger.propagate, logger.level
    logger.propagate = False
    logger.setLevel(logging.ERROR)
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.propagate, logger.level = before


@contextmanager
def no_time_budget() -> Generator[None]:
    """Disable the time limits of scans, so that a page does not depend on the load of the machine."""
    now = time.monotonic()
    stopped_clock = SimpleNamespace(monotonic=lambda: now)
    with ExitStack() as stack:
        for scan in ("scan", "search"):
            stack.enter_context(patch(f"offsider.inspector.{scan}.time", stopped_clock))
        yield


def asgi_pages(server: Server, **options: Any) -> AsgiClient:
    return AsgiClient(asgi(config_of(server.url), **options))


def wsgi_pages(server: Server, **options: Any) -> WsgiClient:
    return WsgiClient(wsgi(config_of(server.url), **options))


def jobs_of(page: dict[str, Any]) -> dict[str, Any]:
    """Return the table of a list of jobs."""
    table: dict[str, Any] = next(block for block in page["blocks"] if block["is"] == "table")
    return table


def first_job(page: dict[str, Any]) -> tuple[str, str]:
    """Return the key and the address of the first listed job."""
    table = jobs_of(page)
    return table["keys"][0], table["rows"][0][table["columns"].index("Class")]["path"]


@cache
def routes() -> list[Route]:
    """Return the routes of all pages and screens."""
    own = offsider.web.pages.routes()
    return [*own, *tab_routes(Installation.of(Config()), own)]


def field_names() -> list[str]:
    """Return every field of a query or a form that a page reads."""
    return sorted({*_found(_READ), *_LISTED})


def number_names() -> list[str]:
    """Return the fields that are numbers."""
    return sorted(_found(_NUMBERS))


def parts_of(route: Route) -> list[str]:
    """Return the names in the braces of the route's path."""
    return _PART.findall(route.path)


def targets_of(route: Route, stored: StoredData) -> list[str]:
    """Return the addresses of the route with stored data; the first one fits the request."""
    if "{where}" in route.path:
        verb = route.path.rpartition("/")[2]
        places = [place for place in places_of(stored) if route.method == "GET" or _fits(verb, place[0])]
        return [route.path.replace("{where}", segment(where)).replace("{key}", segment(key)) for where, key in places]
    if route.method == "POST" and route.path.startswith("/job/{jid}/"):
        where, key = next(place for place in places_of(stored) if _fits(route.path.rpartition("/")[2], place[0]))
        jids = {"busy": stored.running, "quarantine": stored.quarantined}
        return [route.path.replace("{jid}", jids.get(where) or jid_of(where, key))]
    target = "/jobs/count?where=all" if route.path == "/jobs/count" else route.path
    for part in parts_of(route):
        target = target.replace(f"{{{part}}}", known(part, route, stored))
    return [target]


def known(part: str, route: Route, stored: StoredData) -> str:
    """Return the possible values of ``{part}``, as segments of an address."""
    queue, name = segment(stored.queue), segment(stored.name)
    values = {
        "name": queue if route.path.startswith(("/queues", "/callers", "/fleet/queues")) else name,
        "key": segment(stored.keys["retry"][0]),
        "jid": stored.running,
        "identity": segment(stored.identity),
        "id": stored.group,
        "finding": segment(stored.finding),
    }
    return values.get(part, name)


def places_of(stored: StoredData) -> list[tuple[str, str]]:
    """Return locations with jobs, and the key of one job each."""
    keys = stored.keys
    return [
        ("retry", keys["retry"][0]),
        ("schedule", keys["schedule"][0]),
        ("dead", keys["dead"][0]),
        (f"queue:{stored.queue}", f"0|{stored.jids[0]}"),
        ("busy", stored.running),
        ("quarantine", keys["quarantine"][0]),
    ]


def _fits(verb: str, where: str) -> bool:
    if verb in ACTIONS:
        return ACTIONS[verb].fits(where)
    own = {"reschedule": ("retry", "schedule"), "edit": ("retry", "dead"), "signal": ("schedule",), "cancel": ("busy",)}
    return where in own[verb]


def _found(pattern: re.Pattern[str]) -> set[str]:
    texts = (path.read_text() for source in _SOURCES for path in source.rglob("*.py"))
    return {name for text in texts for name in pattern.findall(text)}
