"""Every server at a glance, for pages that show several."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, wait
from typing import Any

from offsider.core.errors import RedisFailure
from offsider.inspector import Stats
from offsider.web.answers import Page
from offsider.web.counters import glance
from offsider.web.layout import counts
from offsider.web.routing import LOOK, Route
from offsider.web.visit import Visit, server_path

#: Nobody waits longer for a server that hangs, however many do.
PATIENCE_SECONDS = 1.5


def show(visit: Visit) -> Page:
    servers = visit.options.servers
    begun = {name: glance(config) for name, config in servers.items()}
    wait(begun.values(), PATIENCE_SECONDS)
    looks = [_seen(look) for look in begun.values()]
    data = [
        {"name": name, "address": _address(visit, name), "url": config.redis.redacted_url, **look}
        for (name, config), look in zip(servers.items(), looks, strict=True)
    ]
    return Page("servers", "Servers", {"servers": data})


def _address(visit: Visit, name: str) -> str:
    """Whole, because it is another server's than this page's."""
    return f"{visit.request.root}{server_path(visit.options, name)}/"


def _seen(look: Future[Stats]) -> Mapping[str, Any]:
    if not look.done():
        return _nothing(f"no answer within {PATIENCE_SECONDS} s")
    try:
        stats = look.result()
    except RedisFailure as error:
        return _nothing(str(error))
    slowest = max((queue.latency_seconds for queue in stats.queue_summaries), default=0.0)
    return {"error": "", "stats": {**counts(stats), "processes": stats.processes}, "slowest_seconds": slowest}


def _nothing(error: str) -> Mapping[str, Any]:
    return {"error": error, "stats": None, "slowest_seconds": None}


ROUTES = [Route("GET", "/servers", LOOK, show)]
