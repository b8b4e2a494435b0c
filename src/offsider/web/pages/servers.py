"""Every server at a glance, for pages that show several."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from offsider.core.errors import RedisFailure
from offsider.web.answers import Page
from offsider.web.counters import counters
from offsider.web.layout import counts
from offsider.web.routing import LOOK, Route
from offsider.web.visit import Visit, server_path
from offsider.wiring.config import Config

#: So many servers are asked at a time: one that does not answer shall not hold up the others.
AT_A_TIME = 8


def show(visit: Visit) -> Page:
    servers = visit.options.servers
    with ThreadPoolExecutor(min(AT_A_TIME, len(servers))) as threads:
        looks = list(threads.map(_look, servers.values()))
    data = [
        {"name": name, "address": _address(visit, name), "url": config.redis.redacted_url, **look}
        for (name, config), look in zip(servers.items(), looks, strict=True)
    ]
    return Page("servers", "Servers", {"servers": data})


def _address(visit: Visit, name: str) -> str:
    """Whole, because it is another server's than this page's."""
    return f"{visit.request.root}{server_path(visit.options, name)}/"


def _look(config: Config) -> Mapping[str, Any]:
    try:
        stats = counters(config)
    except RedisFailure as error:
        return {"error": str(error), "stats": None, "slowest_seconds": None}
    slowest = max((queue.latency_seconds for queue in stats.queue_summaries), default=0.0)
    return {"error": "", "stats": {**counts(stats), "processes": stats.processes}, "slowest_seconds": slowest}


ROUTES = [Route("GET", "/servers", LOOK, show)]
