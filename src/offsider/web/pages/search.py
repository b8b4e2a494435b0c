"""Search: a job id, a class or an argument, over everything that is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offsider.inspector import Found, search_everywhere
from offsider.web.answers import Page
from offsider.web.display import LINE_LETTERS
from offsider.web.filters import address
from offsider.web.places import BUSY, QUEUE
from offsider.web.routing import LOOK, Route
from offsider.web.shown_job import shown

if TYPE_CHECKING:
    from offsider.web.visit import Visit

_BUDGET_MS = 100
_LONGEST_CURSOR = 500


def show(visit: Visit) -> Page:
    """What of a part of everything holds the text, and where to go on."""
    return results(visit, visit.text("q", most=LINE_LETTERS), visit.text("cursor", most=_LONGEST_CURSOR))


def results(visit: Visit, text: str, cursor: str) -> Page:
    """The page of a search, from where an earlier part of it has ended."""
    data: dict[str, Any] = {"q": text, "jobs": [], "scanned": 0, "total": 0, "more": "", "asked": bool(text)}
    if text:
        chunk = search_everywhere(text, cursor, budget_ms=_BUDGET_MS, config=visit.config)
        data |= {
            "jobs": [_row(visit, found) for found in chunk.entries],
            "scanned": chunk.scanned,
            "total": chunk.total,
            "more": address("/search", q=text, cursor=chunk.cursor) if chunk.cursor else "",
        }
    return Page("search", "Search", data, tab="/search")


def _row(visit: Visit, found: Found) -> dict[str, Any]:
    row = shown(found.record, visit.redacted, where=found.where, key=found.key)
    kind = "queue" if found.where.startswith(QUEUE) else found.where
    return row | {"kind": kind, "queue_of": found.where.removeprefix(QUEUE) if kind == "queue" else "", "busy": kind == BUSY}


ROUTES = [Route("GET", "/search", LOOK, show)]
