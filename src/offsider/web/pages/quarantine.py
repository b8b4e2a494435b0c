"""The page of the quarantine: jobs removed in bulk, which can be restored."""

from __future__ import annotations

from typing import Any

from offsider.inspector import Quarantine, QuarantinedJob
from offsider.web.bulk import BulkActions, Verb, bulk_routes
from offsider.web.filters import address, pager
from offsider.web.job_lookup import QUARANTINE
from offsider.web.page_request import PAGE, PageRequest
from offsider.web.results import Page
from offsider.web.routing import LOOK, Route
from offsider.web.shown_job import listed_job, moment, shown

PATH = "/quarantine"
VERBS = {
    "restore": Verb("done.restored", Quarantine.restore, Quarantine.restore_all),
    "delete": Verb("done.deleted", Quarantine.delete, Quarantine.delete_all),
}


def show(request: PageRequest) -> Page:
    """Show the jobs, newest first."""
    quarantine = Quarantine(request.installation)
    size = len(quarantine)
    data = {
        "size": size,
        "every": {verb: address(f"{PATH}/all", verb=verb) for verb in VERBS},
        "days": quarantine.days,
        "jobs": [_row(request, job) for job in quarantine.page(request.rows().start, PAGE)],
        "pager": pager(PATH, request.page, size),
        "selected": {verb: f"{PATH}/selected/{verb}" for verb in VERBS},
    }
    return Page("quarantine", "term.quarantine", data, tab=PATH)


def _row(request: PageRequest, job: QuarantinedJob) -> dict[str, Any]:
    row = shown(job, listed_job(job, request.options.redact), where=QUARANTINE, key=job.id)
    return row | {"was_in": job.where, "at": moment(job.at), "until": moment(job.until), "how": job.how}


def _bulk(request: PageRequest) -> BulkActions:
    # The key of a job is its id, with which the quarantine acts on it.
    return BulkActions(Quarantine(request.installation), PATH, "term.quarantine", PATH, VERBS, str, together=())


ROUTES = [Route("GET", PATH, LOOK, show), *bulk_routes(PATH, _bulk, VERBS, fields=())]
