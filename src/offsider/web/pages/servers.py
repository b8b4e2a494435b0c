"""The page of servers, if there are several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from offsider.inspector import Stats
from offsider.web.counters import counters, read_all
from offsider.web.layout import counts
from offsider.web.page_request import PageRequest, server_path
from offsider.web.results import Page
from offsider.web.routing import LOOK, Route


def show(request: PageRequest) -> Page:
    servers = request.options.servers
    found = read_all(servers, counters)
    data = [
        {"name": name, "address": _address(request, name), "url": here.settings.redacted_url, **_row(found[name])}
        for name, here in servers.items()
    ]
    return Page("servers", "term.servers", {"servers": data})


def _address(request: PageRequest, name: str) -> str:
    """Return an absolute path, because it is another server's."""
    return f"{request.http.root}{server_path(request.options, name)}/"


def _row(stats: Stats | str) -> Mapping[str, Any]:
    if isinstance(stats, str):
        return {"error": stats, "stats": None, "slowest_seconds": None}
    slowest = max((queue.latency_seconds for queue in stats.queue_summaries), default=0.0)
    return {"error": "", "stats": {**counts(stats), "processes": stats.processes}, "slowest_seconds": slowest}


ROUTES = [Route("GET", "/servers", LOOK, show)]
