"""What goes wrong: errors that are alike, counted together when they happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offsider.inspector import ErrorGroup, ErrorGroups
from offsider.web.answers import Done, NotFound, Page
from offsider.web.display import MOST_LETTERS, cut
from offsider.web.filters import MOST_PAGES, PAGE, address, pager
from offsider.web.routing import LOOK, Route
from offsider.web.ruby import ruby_processes
from offsider.web.segments import segment
from offsider.web.shown_job import moment
from offsider.web.words import Words

if TYPE_CHECKING:
    from offsider.web.visit import Visit

_HOURS = 48
_HOUR_SECONDS = 3600
_LONGEST_FILTER = 100


def index(visit: Visit) -> Page:
    """All groups, the latest first or the largest."""
    order = visit.choice("order", ("last_seen", "count"), "last_seen")
    page = visit.number("page", highest=MOST_PAGES)
    groups = ErrorGroups(visit.config)
    found = groups.page((page - 1) * PAGE, PAGE, order="count" if order == "count" else "last_seen")
    data = {
        "order": order,
        "orders": {each: address("/errors", order=each) for each in ("last_seen", "count")},
        "ruby_processes": ruby_processes(visit.config),
        "retries_path": "/retries",
        "dead_path": "/dead",
        "groups": [_shown(visit, group) for group in found],
        "pager": pager("/errors", page, len(groups), order=order),
    }
    return Page("errors", "Errors", data)


def show(visit: Visit) -> Page:
    """One group with its whole message, hour by hour."""
    group = ErrorGroups(visit.config).find(visit.path("id"))
    if group is None:
        raise NotFound("This error is not there any more: somebody has deleted it, or it was not seen for 30 days.")
    return Page("error_group", "Error", _shown(visit, group), subject=cut(group.error_class), tab="/errors")


def delete(visit: Visit) -> Done:
    """Forget one group."""
    gone = ErrorGroups(visit.config).delete(visit.path("id"))
    return Done("/errors", Words("Deleted: {count}", count=int(gone)), {"deleted": int(gone)})


def clear(visit: Visit) -> Done:
    """Forget all groups."""
    count = ErrorGroups(visit.config).clear()
    return Done("/errors", Words("Deleted: {count}", count=count), {"deleted": count})


def _shown(visit: Visit, group: ErrorGroup) -> dict[str, Any]:
    path = f"/errors/{segment(group.id)}"
    # What a filter looks for is contained in what is stored, so the beginning of a long name finds it too.
    alike = {"name": group.name[:_LONGEST_FILTER], "error": group.error_class[:_LONGEST_FILTER]}
    now = visit.config.clock.now()
    first = int(now) // _HOUR_SECONDS * _HOUR_SECONDS - (_HOURS - 1) * _HOUR_SECONDS
    return {
        "id": group.id,
        "path": path,
        "delete_path": f"{path}/delete",
        "name": cut(group.name, MOST_LETTERS),
        "metrics_path": f"/metrics/{segment(group.name)}",
        "error_class": cut(group.error_class, MOST_LETTERS),
        "message": cut(group.message, MOST_LETTERS),
        "count": group.count,
        "first_at": moment(group.first_at),
        "last_at": moment(group.last_at),
        "queue": cut(group.queue, MOST_LETTERS),
        "queue_path": f"/queues/{segment(group.queue)}" if group.queue else "",
        "last_jid": cut(group.last_jid),
        "job_path": f"/job/{segment(group.last_jid)}" if group.last_jid else "",
        "retries_path": address("/retries", **alike),
        "dead_path": address("/dead", **alike),
        "hours_start_at": first,
        "hours": [group.recent.get(first + hour * _HOUR_SECONDS, 0) for hour in range(_HOURS)],
    }


ROUTES = [
    Route("GET", "/errors", LOOK, index),
    Route("POST", "/errors/clear", "error.clear", clear, confirm="Delete all errors?"),
    Route("GET", "/errors/{id}", LOOK, show),
    Route("POST", "/errors/{id}/delete", "error.delete", delete),
]
