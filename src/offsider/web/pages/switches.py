"""The page of kill switches: classes whose jobs are dropped or deferred instead of run."""

from __future__ import annotations

from typing import Any

from offsider.inspector import Switches, SwitchInForce
from offsider.inspector.switches import known_jobs
from offsider.web.display import MAX_LETTERS, cut
from offsider.web.filters import address
from offsider.web.page_request import PageRequest
from offsider.web.results import ActionResult, BadRequest, Message, Page
from offsider.web.routing import LOOK, Route
from offsider.web.segments import segment
from offsider.web.shown_job import moment

PATH = "/switches"
_LONGEST = 500
_MINUTES, _MAX_MINUTES = 5, 525_600
_MAX_HOURS = 8_760
#: One form has the buttons of both actions.
_FIELDS = ("name", "reason", "hours", "minutes", "delete")


def switches_path(name: str) -> str:
    """Show the page with a class filled in."""
    return address(PATH, name=name[:_LONGEST])


def show(request: PageRequest) -> Page:
    """Show active kill switches and a form to add one."""
    seen = Switches(request.installation).look()
    data = {
        "switches": [_row(switch) for switch in seen.switches],
        "away": [{"server": server, "error": cut(str(error), MAX_LETTERS)} for server, error in seen.away.items()],
        "name": request.text("name", most=_LONGEST),
        "minutes": _MINUTES,
        "most_minutes": _MAX_MINUTES,
        "most_hours": _MAX_HOURS,
        "longest": _LONGEST,
        "actions": {verb: f"{PATH}/{verb}" for verb in ("drop", "defer", "clear")},
    }
    return Page("switches", "layout.kill_switches", data, tab=PATH)


def _row(switch: SwitchInForce) -> dict[str, Any]:
    return {
        "name": switch.name,
        "path": f"/metrics/{segment(switch.name)}",
        "action": switch.action,
        "delay_seconds": switch.delay_seconds,
        "keep": switch.keep,
        "since": moment(switch.since),
        "until": moment(switch.until),
        "by": cut(switch.by, MAX_LETTERS),
        "reason": cut(switch.reason, MAX_LETTERS),
        "acted": switch.acted,
        "missing_on": list(switch.missing_on),
        "differs_on": list(switch.differs_on),
    }


def drop(request: PageRequest) -> ActionResult:
    """Drop the jobs of a class."""
    name, given = _name(request), _given(request)
    Switches(request.installation).drop(name, delete=_deletes(request), **given)
    return ActionResult(PATH, Message("switches.now_dropped", name=cut(name)), {"name": name})


def _deletes(request: PageRequest) -> bool:
    return request.choice("delete", ("0", "1"), "0") == "1"


def _sure(request: PageRequest) -> Message:
    """Return the question: the class name was typed, and a deletion is permanent."""
    name = _name(request)
    question = (
        Message("switches.confirm_delete", name=cut(name))
        if _deletes(request)
        else Message("switches.confirm_quarantine", name=cut(name))
    )
    known = known_jobs(request.installation)
    return Message("switches.unknown_class") + question if known and name not in known else question


def defer(request: PageRequest) -> ActionResult:
    """Defer the jobs of a class."""
    name, given = _name(request), _given(request)
    minutes = request.number("minutes", default=_MINUTES, highest=_MAX_MINUTES)
    Switches(request.installation).defer(name, minutes * 60, **given)
    return ActionResult(PATH, Message("switches.now_deferred", name=cut(name)), {"name": name})


def clear(request: PageRequest) -> ActionResult:
    """Remove the kill switch of a class."""
    name = _name(request)
    cleared = Switches(request.installation).clear(name)
    message = Message("switches.cleared" if cleared else "switches.not_set", name=cut(name))
    return ActionResult(PATH, message, {"name": name, "cleared": cleared})


def _name(request: PageRequest) -> str:
    name = request.text("name", most=_LONGEST)
    if not name:
        raise BadRequest("switches.no_name")
    return name


def _given(request: PageRequest) -> dict[str, Any]:
    hours = request.number("hours", default=0, lowest=0, highest=_MAX_HOURS)
    return {
        "lasting": hours * 3_600 if hours else None,
        "by": request.who or request.http.client,
        "reason": request.text("reason", most=_LONGEST),
    }


ROUTES = [
    Route("GET", PATH, LOOK, show),
    Route("POST", f"{PATH}/drop", "switch.drop", drop, asks=_sure, fields=_FIELDS),
    Route("POST", f"{PATH}/defer", "switch.defer", defer, fields=_FIELDS),
    Route("POST", f"{PATH}/clear", "switch.clear", clear, fields=("name",)),
]
