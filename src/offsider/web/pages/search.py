"""Search: a job id, a class or an argument, over everything that is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsider.inspector import Chunk, Found, search_everywhere
from offsider.web.answers import Page
from offsider.web.display import LINE_LETTERS
from offsider.web.filters import BUDGET_MS, ENOUGH, progress
from offsider.web.routing import LOOK, Route
from offsider.web.shown_job import shown

if TYPE_CHECKING:
    from offsider.web.visit import Visit

_LONGEST_CURSOR = 500


def show(visit: Visit) -> Page:
    """What of a part of everything holds the text, and where to go on."""
    text, cursor = visit.text("q", most=LINE_LETTERS), visit.text("cursor", most=_LONGEST_CURSOR)
    if not text:
        return Page("search", "Search", {"q": "", "jobs": [], "search": None}, tab="/search")
    chunk = search_everywhere(text, cursor, budget_ms=BUDGET_MS, config=visit.config, most=ENOUGH)
    return results(visit, text, chunk)


def results(visit: Visit, text: str, chunk: Chunk[Found]) -> Page:
    """The page of a part of a search."""
    rows = [shown(found.record, visit.redacted, where=found.where, key=found.key) for found in chunk.entries]
    data = {"q": text, "jobs": rows, "search": progress(visit, chunk, "/search", q=text)}
    return Page("search", "Search", data, tab="/search")


ROUTES = [Route("GET", "/search", LOOK, show)]
