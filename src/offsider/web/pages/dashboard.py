"""The first page: what is going on now, the days before, the slowest queues, the server."""

from __future__ import annotations

from offsider.inspector.queue import Queue
from offsider.inspector.stats import Stats
from offsider.web.answers import Answer, Page, Text
from offsider.web.layout import counts
from offsider.web.routing import LOOK, Route
from offsider.web.visit import Visit


def show(visit: Visit) -> Answer:
    if visit.request.method == "HEAD":
        return alive(visit)
    stats = Stats.read(visit.config)
    return Page("dashboard", "Dashboard", {"stats": dict(counts(stats))})


def alive(visit: Visit) -> Text:
    """The cheapest answer that says whether the server can be reached."""
    len(Queue("default", visit.config))
    return Text("")


ROUTES = [Route("GET", "/", LOOK, show)]
