"""The page of the quarantine: jobs removed in bulk, which can be restored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from offsider.inspector import Quarantine, QuarantinedJob
from offsider.web.bulk import Act, Bulk
from offsider.web.filters import MOST_PAGES, PAGE, address, pager
from offsider.web.job_lookup import QUARANTINE
from offsider.web.page_request import PageRequest
from offsider.web.pages.job_sets import sure_of_chosen
from offsider.web.results import Done, Page, with_gone
from offsider.web.routing import LOOK, Route
from offsider.web.shown_job import moment, shown

PATH = "/quarantine"
#: Verb -> message id of the result, the action on one job, and on the counted jobs.
VERBS = {
    "restore": ("done.restored", Quarantine.restore, Quarantine.restore_all),
    "delete": ("done.deleted", Quarantine.delete, Quarantine.delete_all),
}


def show(request: PageRequest) -> Page:
    """Show the jobs, newest first."""
    quarantine = Quarantine(request.installation)
    page = request.number("page", default=1, lowest=1, highest=MOST_PAGES)
    size = len(quarantine)
    data = {
        "size": size,
        "every": {verb: address(f"{PATH}/all", verb=verb) for verb in VERBS},
        "days": quarantine.days,
        "jobs": [_row(request, job) for job in quarantine.page((page - 1) * PAGE, PAGE)],
        "pager": pager(PATH, page, size),
        "selected": {verb: f"{PATH}/selected/{verb}" for verb in VERBS},
    }
    return Page("quarantine", "term.quarantine", data, tab=PATH)


def _row(request: PageRequest, job: QuarantinedJob) -> dict[str, Any]:
    row = shown(job.record, request.redacted, where=QUARANTINE, key=job.id)
    return row | {"was_in": job.where, "at": moment(job.at), "until": moment(job.until), "how": job.how}


def selected(done: str, act: Callable[[Quarantine, str], bool], request: PageRequest) -> Done:
    """Act on the selected jobs."""
    quarantine = Quarantine(request.installation)
    keys = request.selected("key")
    count = sum(act(quarantine, key) for key in keys)
    gone = len(keys) - count
    return Done(PATH, with_gone(done, count, gone), {"done_to": count, "gone": gone})


def _bulk(request: PageRequest) -> Bulk:
    actions = {verb: f"jobs.{verb}" for verb in VERBS}
    return Bulk(Quarantine(request.installation), PATH, "term.quarantine", actions, tab=PATH, together=())


def ask(request: PageRequest) -> Page:
    """Count the jobs and ask for confirmation."""
    return _bulk(request).ask(request)


def every(verb: str, done: str, act: Act, request: PageRequest) -> Done:
    """Act on the counted jobs."""
    return _bulk(request).act(request, verb, done, act)


def _routes() -> Iterator[Route]:
    yield Route("GET", PATH, LOOK, show)
    yield Route("GET", f"{PATH}/all", LOOK, ask)
    for verb, (done, one, all_jobs) in VERBS.items():
        asks = partial(sure_of_chosen, "term.quarantine") if verb == "delete" else None
        yield Route("POST", f"{PATH}/selected/{verb}", f"job.{verb}", partial(selected, done, one), asks=asks)
        yield Route("POST", f"{PATH}/all/{verb}", f"jobs.{verb}", partial(every, verb, done, all_jobs))


ROUTES = [*_routes()]
