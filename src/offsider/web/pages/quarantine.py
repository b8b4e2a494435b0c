"""The page of the quarantine: jobs removed in bulk, which can be restored."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from offsider.inspector import Quarantine, QuarantinedJob
from offsider.web.bulk import Bulk
from offsider.web.filters import MOST_PAGES, PAGE, address, pager
from offsider.web.job_lookup import QUARANTINE
from offsider.web.messages import with_gone
from offsider.web.page_request import PageRequest
from offsider.web.pages.job_sets import sure_of_chosen
from offsider.web.results import Done, Page
from offsider.web.routing import LOOK, Route
from offsider.web.shown_job import moment, shown

PATH = "/quarantine"


def show(request: PageRequest) -> Page:
    """Show the jobs, newest first."""
    quarantine = Quarantine(request.installation)
    page = request.number("page", default=1, lowest=1, highest=MOST_PAGES)
    size = len(quarantine)
    data = {
        "size": size,
        "every": {verb: address(f"{PATH}/all", verb=verb) for verb in ("restore", "delete")},
        "days": quarantine.days,
        "jobs": [_row(request, job) for job in quarantine.page((page - 1) * PAGE, PAGE)],
        "pager": pager(PATH, page, size),
        "selected": {verb: f"{PATH}/selected/{verb}" for verb in ("restore", "delete")},
    }
    return Page("quarantine", "term.quarantine", data, tab=PATH)


def _row(request: PageRequest, job: QuarantinedJob) -> dict[str, Any]:
    row = shown(job.record, request.redacted, where=QUARANTINE, key=job.id)
    return row | {"was_in": job.where, "at": moment(job.at), "until": moment(job.until), "how": job.how}


def restore_selected(request: PageRequest) -> Done:
    """Restore the selected jobs."""
    return _selected(request, "done.restored", Quarantine.restore)


def delete_selected(request: PageRequest) -> Done:
    """Permanently delete the selected jobs."""
    return _selected(request, "done.deleted", Quarantine.delete)


def _selected(request: PageRequest, done: str, act: Callable[[Quarantine, str], bool]) -> Done:
    quarantine = Quarantine(request.installation)
    keys = request.selected("key")
    count = sum(act(quarantine, key) for key in keys)
    gone = len(keys) - count
    return Done(PATH, with_gone(done, count, gone), {"done_to": count, "gone": gone})


def _bulk(request: PageRequest) -> Bulk:
    actions = {"restore": "jobs.restore", "delete": "jobs.delete"}
    return Bulk(Quarantine(request.installation), PATH, "term.quarantine", actions, tab=PATH, together=())


def ask(request: PageRequest) -> Page:
    """Count the jobs and ask for confirmation."""
    return _bulk(request).ask(request)


def restore_all(request: PageRequest) -> Done:
    """Restore the counted jobs."""
    return _bulk(request).act(request, "restore", "done.restored", Quarantine.restore_all)


def delete_all(request: PageRequest) -> Done:
    """Permanently delete the counted jobs."""
    return _bulk(request).act(request, "delete", "done.deleted", Quarantine.delete_all)


ROUTES = [
    Route("GET", PATH, LOOK, show),
    Route("GET", f"{PATH}/all", LOOK, ask),
    Route("POST", f"{PATH}/selected/restore", "job.restore", restore_selected),
    Route(
        "POST",
        f"{PATH}/selected/delete",
        "job.delete",
        delete_selected,
        asks=partial(sure_of_chosen, "term.quarantine"),
    ),
    Route("POST", f"{PATH}/all/restore", "jobs.restore", restore_all),
    Route("POST", f"{PATH}/all/delete", "jobs.delete", delete_all),
]
