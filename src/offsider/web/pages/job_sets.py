"""The pages of retries, scheduled and dead jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from offsider.inspector import DeadSet, JobSet, Quarantine, RetrySet, ScheduledSet, SetEntry
from offsider.web.bulk import BulkActions, Verb, bulk_routes
from offsider.web.filters import address, fields_of, listed, wanted
from offsider.web.page_request import PageRequest
from offsider.web.results import Page
from offsider.web.routing import LOOK, Route
from offsider.web.shown_job import listed_job, moment, shown

_ORDERS = ("earliest", "latest")


@dataclass(frozen=True)
class SetPage:
    """The page of a job set.

    Attributes:
        path: path of the page.
        title: message id of the title.
        kind: the job set.
        order: default order.
        verbs: actions on its jobs.
    """

    path: str
    title: str
    kind: type[JobSet]
    order: str
    verbs: tuple[str, ...]


RETRIES = SetPage("/retries", "term.retries", RetrySet, "earliest", ("retry", "kill", "quarantine", "delete"))
SCHEDULED = SetPage("/scheduled", "term.scheduled", ScheduledSet, "earliest", ("add_to_queue", "quarantine", "delete"))
DEAD = SetPage("/dead", "term.dead", DeadSet, "latest", ("retry", "quarantine", "delete"))
SET_PAGES = (RETRIES, SCHEDULED, DEAD)


#: The reason passed to death handlers.
KILLED = "killed in the web UI"

VERBS = {
    "retry": Verb("done.added", lambda _, entry: entry.retry(), JobSet.retry_all),
    "add_to_queue": Verb("done.added", lambda _, entry: entry.add_to_queue(), JobSet.enqueue_all),
    "kill": Verb(
        "done.killed",
        lambda jobs, entry: jobs.kill(entry, KILLED),
        lambda jobs, counted, budget_ms: jobs.kill_all(counted, budget_ms, KILLED),
    ),
    "quarantine": Verb("done.quarantined", JobSet.quarantine, JobSet.quarantine_all),
    "delete": Verb("done.deleted", JobSet.delete, JobSet.delete_all),
}


def show(page: SetPage, request: PageRequest) -> Page:
    """Show the jobs of a set in pages, or the jobs that match a filter."""
    jobs, fields = page.kind(request.installation), fields_of(wanted(request))
    order = request.choice("order", _ORDERS, page.order)
    data: dict[str, Any] = {
        "set": jobs.name,
        "path": page.path,
        "size": len(jobs),
        "quarantine_size": len(Quarantine(request.installation)),
        "verbs": list(page.verbs),
        "selected": {verb: f"{page.path}/selected/{verb}" for verb in page.verbs},
        "every": {verb: address(f"{page.path}/all", **fields, verb=verb) for verb in page.verbs},
    }

    def row(entry: SetEntry) -> dict[str, Any]:
        redacted = listed_job(entry, request.options.redact)
        return shown(entry, redacted, where=jobs.name, key=entry.key) | {"at": moment(entry.at)}

    score = attrgetter("score")
    data |= listed(request, jobs, page.path, size=data["size"], orders=_ORDERS, order=order, row=row, score=score)
    return Page("job_set", page.title, data, tab=page.path)


def _bulk(page: SetPage, request: PageRequest) -> BulkActions:
    jobs = page.kind(request.installation)
    verbs = {verb: VERBS[verb] for verb in page.verbs}
    return BulkActions(jobs, page.path, page.title, page.path, verbs, jobs.entry)


def _routes(page: SetPage) -> Iterator[Route]:
    yield Route("GET", page.path, LOOK, partial(show, page))
    yield from bulk_routes(page.path, partial(_bulk, page), page.verbs)


ROUTES = [route for page in SET_PAGES for route in _routes(page)]
