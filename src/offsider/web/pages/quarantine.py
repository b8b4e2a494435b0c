"""The quarantine: what was removed in bulk, and can be restored."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from offsider.inspector import Quarantine, QuarantinedJob
from offsider.web.answers import Done, Page
from offsider.web.filters import MOST_PAGES, PAGE, pager
from offsider.web.places import QUARANTINE
from offsider.web.routing import LOOK, Route
from offsider.web.shown_job import moment, shown
from offsider.web.words import Words, counted

if TYPE_CHECKING:
    from offsider.web.visit import Visit

PATH = "/quarantine"


def show(visit: Visit) -> Page:
    """What was put aside, the last first."""
    quarantine = Quarantine(visit.config)
    page = visit.number("page", default=1, lowest=1, highest=MOST_PAGES)
    size = len(quarantine)
    data = {
        "size": size,
        "days": quarantine.days,
        "jobs": [_row(visit, job) for job in quarantine.page((page - 1) * PAGE, PAGE)],
        "pager": pager(PATH, page, size),
        "selected": {verb: f"{PATH}/selected/{verb}" for verb in ("restore", "delete")},
    }
    return Page("quarantine", "Quarantine", data, tab=PATH)


def _row(visit: Visit, job: QuarantinedJob) -> dict[str, Any]:
    row = shown(job.record, visit.redacted, where=QUARANTINE, key=job.id)
    return row | {"was_in": job.where, "at": moment(job.at), "until": moment(job.until), "how": job.how}


def restore_selected(visit: Visit) -> Done:
    """Move the chosen jobs back to where they were."""
    return _selected(visit, "Restored: {count}", Quarantine.restore)


def delete_selected(visit: Visit) -> Done:
    """Delete the chosen jobs for good."""
    return _selected(visit, "Deleted: {count}", Quarantine.delete)


def _selected(visit: Visit, done: str, act: Callable[[Quarantine, str], bool]) -> Done:
    quarantine = Quarantine(visit.config)
    keys = visit.selected("key")
    count = sum(act(quarantine, key) for key in keys)
    gone = len(keys) - count
    return Done(PATH, counted(done, count, gone), {"done_to": count, "gone": gone})


def restore_all(visit: Visit) -> Done:
    """Move every job back to where it was."""
    count = Quarantine(visit.config).restore_all()
    return Done(PATH, Words("Restored: {count}", count=count), {"done_to": count})


def delete_all(visit: Visit) -> Done:
    """Delete every job for good."""
    count = Quarantine(visit.config).delete_all()
    return Done(PATH, Words("Deleted: {count}", count=count), {"done_to": count})


ROUTES = [
    Route("GET", PATH, LOOK, show),
    Route("POST", f"{PATH}/selected/restore", "job.restore", restore_selected),
    Route("POST", f"{PATH}/selected/delete", "job.delete", delete_selected, confirm="Delete these jobs for good?"),
    Route("POST", f"{PATH}/all/restore", "jobs.restore", restore_all, confirm="Restore every job?"),
    Route("POST", f"{PATH}/all/delete", "jobs.delete", delete_all, confirm="Delete every job in quarantine for good?"),
]
