"""The shards on all servers: who serves them, and what waits for them."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any

from offsider.core.errors import RedisFailure
from offsider.inspector import ServerLook, Shard, shards_of
from offsider.web.answers import Page
from offsider.web.counters import server_look
from offsider.web.display import cut
from offsider.web.routing import LOOK, Route
from offsider.web.segments import segment
from offsider.web.visit import server_path

if TYPE_CHECKING:
    from offsider.web.visit import Visit
    from offsider.wiring.config import Config

#: As on the page of servers.
PATIENCE_SECONDS = 1.5
#: One that selects jobs may have more of them than a page can show.
MOST_QUEUES = 30


def show(visit: Visit) -> Page:
    begun = {server: server_look(_config_of(visit, server)) for server in visit.config.servers}
    wait(begun.values(), PATIENCE_SECONDS)
    seen = {server: _seen(look) for server, look in begun.items()}
    return Page("shards", "Shards", {"shards": [_row(visit, shard) for shard in shards_of(visit.config, seen)]})


def _row(visit: Visit, shard: Shard) -> Mapping[str, Any]:
    pages = _pages_of(visit, shard.server)
    return {
        "name": shard.name,
        "server": shard.server,
        "url": shard.url,
        "address": f"{pages}/" if pages is not None else "",
        "error": shard.error,
        "queues": [_queue(name, pages) for name in shard.queues[:MOST_QUEUES]],
        "more_queues": max(0, len(shard.queues) - MOST_QUEUES),
        "processes": shard.processes,
        "quiet": shard.quiet,
        "concurrency": shard.concurrency,
        "busy": shard.busy,
        "waiting": shard.waiting,
        "latency_seconds": shard.latency_seconds,
    }


def _queue(name: str, pages: str | None) -> Mapping[str, str]:
    return {"name": cut(name), "address": "" if pages is None else f"{pages}/queues/{segment(name)}"}


def _shown_as(visit: Visit, server: str) -> str | None:
    """The name under which a server of the configuration is shown here; None when it is not."""
    section = visit.config.servers[server]
    return next((name for name, config in visit.options.servers.items() if config.redis is section), None)


def _config_of(visit: Visit, server: str) -> Config:
    name = _shown_as(visit, server)
    return visit.config.for_server(server) if name is None else visit.options.servers[name]


def _pages_of(visit: Visit, server: str) -> str | None:
    """Where a server's pages begin, whole, because they may be another server's than this page's."""
    name = _shown_as(visit, server)
    return None if name is None else visit.request.root + server_path(visit.options, name)


def _seen(look: Future[ServerLook]) -> ServerLook | str:
    if not look.done():
        return f"no answer within {PATIENCE_SECONDS} s"
    try:
        return look.result()
    except RedisFailure as error:
        return str(error)


ROUTES = [Route("GET", "/shards", LOOK, show)]
