"""The page of servers, if there are several."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, wait
from typing import Any

from offsider.core.errors import RedisFailure
from offsider.inspector import Stats
from offsider.web.counters import glance
from offsider.web.layout import counts
from offsider.web.page_request import PageRequest, server_path
from offsider.web.results import Page
from offsider.web.routing import LOOK, Route

#: Maximum wait for all hanging servers together.
TIMEOUT_SECONDS = 1.5


def show(request: PageRequest) -> Page:
    servers = request.options.servers
    begun = {name: glance(here) for name, here in servers.items()}
    wait(begun.values(), TIMEOUT_SECONDS)
    looks = [_seen(look) for look in begun.values()]
    data = [
        {"name": name, "address": _address(request, name), "url": here.settings.redacted_url, **look}
        for (name, here), look in zip(servers.items(), looks, strict=True)
    ]
    return Page("servers", "term.servers", {"servers": data})


def _address(request: PageRequest, name: str) -> str:
    """Return an absolute path, because it is another server's."""
    return f"{request.http.root}{server_path(request.options, name)}/"


def _seen(look: Future[Stats]) -> Mapping[str, Any]:
    if not look.done():
        return _nothing(f"no response within {TIMEOUT_SECONDS} s")
    try:
        stats = look.result()
    except RedisFailure as error:
        return _nothing(str(error))
    slowest = max((queue.latency_seconds for queue in stats.queue_summaries), default=0.0)
    return {"error": "", "stats": {**counts(stats), "processes": stats.processes}, "slowest_seconds": slowest}


def _nothing(error: str) -> Mapping[str, Any]:
    return {"error": error, "stats": None, "slowest_seconds": None}


ROUTES = [Route("GET", "/servers", LOOK, show)]
