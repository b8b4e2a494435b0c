"""The page of errors: groups of similar errors with their counts."""

from __future__ import annotations

from typing import Any

from offsider.inspector import ErrorGroup, ErrorGroups
from offsider.web.counters import ruby_processes
from offsider.web.display import MAX_LETTERS, cut
from offsider.web.filters import address, pager
from offsider.web.page_request import EVERY, PAGE, PageRequest
from offsider.web.results import ActionResult, Message, NotFound, Page
from offsider.web.routing import LOOK, Route
from offsider.web.segments import segment
from offsider.web.shown_job import moment

_HOURS = 48
_HOUR_SECONDS = 3600


def index(request: PageRequest) -> Page:
    """Show all groups, by time or by count."""
    order = request.choice("order", ("last_seen", "count"), "last_seen")
    groups = ErrorGroups(request.installation)
    found = groups.page(request.rows().start, PAGE, order="count" if order == "count" else "last_seen")
    data = {
        "total": len(groups),
        "order": order,
        "orders": {each: address("/errors", order=each) for each in ("last_seen", "count")},
        "ruby_processes": ruby_processes(request.installation),
        "retries_path": "/retries",
        "dead_path": "/dead",
        "groups": [_shown(request, group) for group in found],
        "pager": pager("/errors", request.page, len(groups), order=order),
    }
    return Page("errors", "term.errors", data)


def show(request: PageRequest) -> Page:
    """Show a group with its message and its errors per hour."""
    group = ErrorGroups(request.installation).find(request.path("id"))
    if group is None:
        raise NotFound("errors.not_found")
    return Page("error_group", "term.error", _shown(request, group), subject=cut(group.error_class), tab="/errors")


def delete(request: PageRequest) -> ActionResult:
    """Delete a group."""
    gone = ErrorGroups(request.installation).delete(request.path("id"))
    return ActionResult("/errors", Message("errors.deleted", count=int(gone)), {"deleted": int(gone)})


def _sure(request: PageRequest) -> Message | None:
    group = ErrorGroups(request.installation).find(request.path("id"))
    if group is None:
        return None
    return Message("errors.confirm_delete", error=cut(group.error_class), name=cut(group.name))


def _sure_of_all(request: PageRequest) -> Message:
    request.check_every()
    return Message("errors.confirm_clear", count=len(ErrorGroups(request.installation)))


def clear(request: PageRequest) -> ActionResult:
    """Delete all groups."""
    request.check_every()
    count = ErrorGroups(request.installation).clear()
    return ActionResult("/errors", Message("errors.deleted", count=count), {"deleted": count})


def _shown(request: PageRequest, group: ErrorGroup) -> dict[str, Any]:
    path = f"/errors/{segment(group.id)}"
    now = request.installation.config.clock.now()
    first = int(now) // _HOUR_SECONDS * _HOUR_SECONDS - (_HOURS - 1) * _HOUR_SECONDS
    return {
        "id": group.id,
        "path": path,
        "delete_path": f"{path}/delete",
        "name": cut(group.name, MAX_LETTERS),
        "metrics_path": f"/metrics/{segment(group.name)}",
        "error_class": cut(group.error_class, MAX_LETTERS),
        "message": cut(request.unquoted(group.message), MAX_LETTERS),
        "count": group.count,
        "first_at": moment(group.first_at),
        "last_at": moment(group.last_at),
        "queue": cut(group.queue, MAX_LETTERS),
        "queue_path": f"/queues/{segment(group.queue)}" if group.queue else "",
        "last_jid": cut(group.last_jid),
        "job_path": f"/job/{segment(group.last_jid)}" if group.last_jid else "",
        "retries_path": address("/retries", group=group.id),
        "dead_path": address("/dead", group=group.id),
        "hours_start_at": first,
        "hours": [group.recent.get(first + hour * _HOUR_SECONDS, 0) for hour in range(_HOURS)],
    }


ROUTES = [
    Route("GET", "/errors", LOOK, index),
    Route("POST", "/errors/clear", "error.clear", clear, asks=_sure_of_all, fields=(EVERY,)),
    Route("GET", "/errors/{id}", LOOK, show),
    Route("POST", "/errors/{id}/delete", "error.delete", delete, asks=_sure),
]
