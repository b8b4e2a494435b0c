"""The page of a job, and the addresses of its actions."""

from __future__ import annotations

from typing import Any

from offsider.config.addresses import FLEET, jobs_path
from offsider.inspector.why import judge, read
from offsider.screens import job
from offsider.screens.errors import NotFound
from offsider.screens.job_lookup import JobLocation, find, find_by_jid, jid_of
from offsider.screens.plain import cut
from offsider.web.extension_tabs import action_routes
from offsider.web.page_request import PageRequest
from offsider.web.results import Page, Redirect
from offsider.web.routing import LOOK, Route

#: A search for an id seldom takes long, and a reader of the page would wait for its next step anyway.
_BUDGET_MS = 1_000.0


def show(request: PageRequest) -> Page | Redirect:
    """Show a job by location and key, or by id if it has moved."""
    where, key = request.path("where"), request.path("key")
    place = find(request.installation, where, key)
    return _by_id(request, jid_of(where, key)) if place is None else _page(request, place)


def find_by_id(request: PageRequest) -> Page | Redirect:
    """Show a job by its id, wherever it is."""
    return _by_id(request, request.path("jid"))


def _by_id(request: PageRequest, jid: str) -> Page | Redirect:
    """Show a job, what is known of one that has ended, or the search for it if that takes longer than a page may.

    Raises:
        NotFound: nothing is stored about the job.
    """
    place, chunk = find_by_jid(request.installation, jid, _BUDGET_MS)
    if place is not None:
        return _page(request, place)
    if chunk.cursor:
        return Redirect(jobs_path(jid=jid))
    seen = read(jid, request.installation)
    if not seen.is_found:
        raise NotFound("job.not_found")
    reasons: list[dict[str, Any]] = [
        {"text": one.text, "tone": one.tone, "steps": [step._asdict() for step in one.steps]} for one in judge(seen)
    ]
    return Page("job_ended", "term.job", {"jid": cut(jid), "reasons": reasons}, subject=cut(jid), tab=FLEET)


def _page(request: PageRequest, place: JobLocation) -> Page:
    data = job.details(request, place, every=request.choice("all", ("0", "1"), "0") == "1")
    return Page(
        "job", "term.job", data, subject=place.record.display_class or place.record.jid, tab=job.list_of(place.where)
    )


ROUTES = [
    Route("GET", "/job/{jid}", LOOK, find_by_id),
    Route("GET", "/job/{where}/{key}", LOOK, show),
    *action_routes(job.TAB),
]
