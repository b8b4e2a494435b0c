"""Search for a job id, class or argument in all stored jobs."""

from __future__ import annotations

from offsider.inspector import Chunk, Found, find_tracked, search_everywhere
from offsider.inspector.scan import PAGE_BUDGET_MS, PAGE_MATCHES
from offsider.web.display import LINE_LETTERS
from offsider.web.filters import progress
from offsider.web.page_request import PageRequest
from offsider.web.results import Page
from offsider.web.routing import LOOK, Route
from offsider.web.shown_job import listed_job, shown

_LONGEST_CURSOR = 500


def show(request: PageRequest) -> Page:
    """Show the matches of one step of the search, and the next step."""
    text, cursor = request.text("q", most=LINE_LETTERS), request.text("cursor", most=_LONGEST_CURSOR)
    if not text:
        return Page("search", "common.search", {"q": "", "jobs": [], "search": None}, tab="/search")
    chunk = search_everywhere(text, cursor, budget_ms=PAGE_BUDGET_MS, config=request.installation, most=PAGE_MATCHES)
    return results(request, text, chunk)


def results(request: PageRequest, text: str, chunk: Chunk[Found]) -> Page:
    """Return the page of a step of a search."""
    rows = [
        shown(found.record, listed_job(found.record, request.options.redact), where=found.where, key=found.key)
        for found in chunk.entries
    ]
    search = progress(request, len(rows), chunk, "/search", q=text)
    info = find_tracked(text, request.installation)
    data = {"q": text, "jobs": rows, "search": search, "state": f"{info.name} {info}" if info else ""}
    return Page("search", "common.search", data, tab="/search")


ROUTES = [Route("GET", "/search", LOOK, show)]
