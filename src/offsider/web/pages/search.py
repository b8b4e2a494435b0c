"""Search: a job id, a class or an argument, over everything that is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offsider.inspector import search_everywhere
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
    return results(visit, visit.text("q", most=LINE_LETTERS), visit.text("cursor", most=_LONGEST_CURSOR))


def results(visit: Visit, text: str, cursor: str) -> Page:
    """The page of a search, from where an earlier part of it has ended."""
    data: dict[str, Any] = {"q": text, "jobs": [], "search": None}
    if text:
        chunk = search_everywhere(text, cursor, budget_ms=BUDGET_MS, config=visit.config, most=ENOUGH)
        data["jobs"] = [
            shown(found.record, visit.redacted, where=found.where, key=found.key) for found in chunk.entries
        ]
        data["search"] = progress(visit, chunk, "/search", q=text)
    return Page("search", "Search", data, tab="/search")


ROUTES = [Route("GET", "/search", LOOK, show)]
