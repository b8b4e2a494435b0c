"""The pages of servers and shards: the numbers of each server; processes and queues of each shard on all servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from offsider.config.installation import Installation
from offsider.fleet import Shard, shards_of
from offsider.inspector import Stats
from offsider.web.counters import counters, looked, read_all
from offsider.web.display import cut
from offsider.web.layout import counts
from offsider.web.page_request import PageRequest, server_path
from offsider.web.results import Page
from offsider.web.routing import LOOK, Route
from offsider.web.segments import segment

#: Maximum queues shown; a shard that selects jobs may have more.
MAX_QUEUES = 30


def servers(request: PageRequest) -> Page:
    """Show all servers, if there are several."""
    shown = request.options.servers
    found = read_all(shown, counters)
    data = [
        {"name": name, "address": _address(request, name), "url": here.settings.redacted_url, **_server(found[name])}
        for name, here in shown.items()
    ]
    return Page("servers", "term.servers", {"servers": data})


def _address(request: PageRequest, name: str) -> str:
    """Return an absolute path, because it is another server's."""
    return f"{request.http.root}{server_path(request.options, name)}/"


def _server(stats: Stats | str) -> Mapping[str, Any]:
    if isinstance(stats, str):
        return {"error": stats, "stats": None, "slowest_seconds": None}
    slowest = max((queue.latency_seconds for queue in stats.queue_summaries), default=0.0)
    return {"error": "", "stats": {**counts(stats), "processes": stats.processes}, "slowest_seconds": slowest}


def shards(request: PageRequest) -> Page:
    """Show the shards on all servers."""
    installations = {name: _installation_of(request, name) for name in request.installation.config.servers}
    found = shards_of(request.installation, read_all(installations, looked))
    return Page("shards", "term.shards", {"shards": [_row(request, shard) for shard in found]})


def _row(request: PageRequest, shard: Shard) -> Mapping[str, Any]:
    pages = _pages_of(request, shard.server)
    return {
        "name": shard.name,
        "server": shard.server,
        "url": shard.url,
        "address": f"{pages}/" if pages is not None else "",
        "error": shard.error,
        "queues": [_queue(name, pages) for name in shard.queues[:MAX_QUEUES]],
        "more_queues": max(0, len(shard.queues) - MAX_QUEUES),
        "processes": shard.processes,
        "quiet": shard.quiet,
        "concurrency": shard.concurrency,
        "busy": shard.busy,
        "waiting": shard.waiting,
        "latency_seconds": shard.latency_seconds,
    }


def _queue(name: str, pages: str | None) -> Mapping[str, str]:
    return {"name": cut(name), "address": "" if pages is None else f"{pages}/queues/{segment(name)}"}


def _shown_as(request: PageRequest, server: str) -> str | None:
    """Return the name under which a server is shown here; None if it is not."""
    section = request.installation.config.servers[server]
    return next((name for name, here in request.options.servers.items() if here.settings is section), None)


def _installation_of(request: PageRequest, server: str) -> Installation:
    name = _shown_as(request, server)
    return request.installation.for_server(server) if name is None else request.options.servers[name]


def _pages_of(request: PageRequest, server: str) -> str | None:
    """Return the absolute path of a server's pages, which may be another server than this page's."""
    name = _shown_as(request, server)
    return None if name is None else request.http.root + server_path(request.options, name)


ROUTES = [
    Route("GET", "/servers", LOOK, servers),
    Route("GET", "/shards", LOOK, shards),
]
