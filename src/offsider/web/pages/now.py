"""The first page: the findings."""

from __future__ import annotations

from offsider.inspector import Queue
from offsider.screens import now
from offsider.web.page_request import PageRequest
from offsider.web.results import Answer, Page, Text
from offsider.web.routing import LOOK, Route


def show(request: PageRequest) -> Answer:
    """Show the findings; answer HEAD, the probe of load balancers, with one cheap command."""
    if request.http.method == "HEAD":
        len(Queue("default", request.installation))
        return Text("")
    return Page("now", "layout.now", now.show(request.installation))


ROUTES = [Route("GET", "/", LOOK, show)]
