"""The pages of one server in this process, and their routes and fields, read from the code."""

from __future__ import annotations

import logging
import re
import time
import traceback
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import offsider.web.pages
from bench.scoreboard.furniture import Furniture
from bench.scoreboard.servers import Server
from bench.scoreboard.visits import AsgiVisits, WsgiVisits
from offsider import Config
from offsider.web import asgi, wsgi
from offsider.web.routing import Route
from offsider.web.segments import segment

_SOURCES = Path(offsider.web.__file__).parent
_READ = re.compile(r"""request\.(?:number|choice|text|selected)\(\s*["']([a-z_]+)["']""")
_NUMBERS = re.compile(r"""request\.number\(\s*["']([a-z_]+)["']""")
_LISTED = ("text", "name", "argument", "error", "tag", "caller", "format", "confirm")
SETS = {"retries": "retry", "scheduled": "schedule", "dead": "dead", "quarantine": "quarantine"}
_PART = re.compile(r"\{([a-z_]+)\}")


def config_of(server: Server) -> Config:
    config = Config()
    config.redis.url = server.url
    return config


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
        for scan in ("scan", "search", "queue"):
            stack.enter_context(patch(f"offsider.inspector.{scan}.time", stopped_clock))
        yield


def asgi_visits(server: Server, **options: Any) -> AsgiVisits:
    return AsgiVisits(asgi(config_of(server), **options))


def wsgi_visits(server: Server, **options: Any) -> WsgiVisits:
    return WsgiVisits(wsgi(config_of(server), **options))


def routes() -> list[Route]:
    return offsider.web.pages.routes()


def field_names() -> list[str]:
    """Return every field of a query or a form that a page reads."""
    return sorted({*_found(_READ), *_LISTED})


def number_names() -> list[str]:
    """Return the fields that are numbers."""
    return sorted(_found(_NUMBERS))


def parts_of(route: Route) -> list[str]:
    """Return the names in the braces of the route's path."""
    return _PART.findall(route.path)


def target_of(route: Route, furniture: Furniture) -> str:
    """Return an address of the route with stored data that fits the request."""
    return targets_of(route, furniture)[0]


def targets_of(route: Route, furniture: Furniture) -> list[str]:
    """Return the addresses of the route with stored data."""
    if "{where}" in route.path:
        places = _places(furniture)
        verb = route.path.rpartition("/")[2]
        # Try a verb that fits only one location there.
        fitting = {"add_to_queue": places[1:2], "restore": places[-1:]}.get(verb, places)
        return [route.path.replace("{where}", segment(where)).replace("{key}", segment(key)) for where, key in fitting]
    target = route.path
    for part in parts_of(route):
        target = target.replace(f"{{{part}}}", known(part, route, furniture))
    return [target]


def known(part: str, route: Route, furniture: Furniture) -> str:
    """Return the possible values of ``{part}``, as segments of an address."""
    queue, name = segment(furniture.queue), segment(furniture.name)
    values = {
        "queue": queue,
        "name": queue if route.path.startswith(("/queues", "/callers")) else name,
        "where": "retry",
        "key": segment(furniture.keys["retry"][0]),
        "jid": furniture.jids[0],
        "identity": segment(furniture.identity),
        "id": furniture.group,
    }
    return values.get(part, name)


def _places(furniture: Furniture) -> list[tuple[str, str]]:
    """Return locations with jobs, and the key of one job each."""
    keys = furniture.keys
    return [
        ("retry", keys["retry"][0]),
        ("schedule", keys["schedule"][0]),
        ("dead", keys["dead"][0]),
        (f"queue:{furniture.queue}", f"0|{furniture.jids[0]}"),
        ("busy", furniture.running),
        ("quarantine", keys["quarantine"][0]),
    ]


def _found(pattern: re.Pattern[str]) -> set[str]:
    texts = (path.read_text() for path in _SOURCES.rglob("*.py"))
    return {name for text in texts for name in pattern.findall(text)}
