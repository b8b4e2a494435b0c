"""Switches: classes whose jobs are dropped or put off instead of run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offsider.inspector import Switches, SwitchInForce
from offsider.inspector.switches import known_jobs
from offsider.web.answers import BadRequest, Done, Page
from offsider.web.display import MOST_LETTERS, cut
from offsider.web.filters import address
from offsider.web.routing import LOOK, Route
from offsider.web.segments import segment
from offsider.web.shown_job import moment
from offsider.web.words import Words

if TYPE_CHECKING:
    from offsider.web.visit import Visit

PATH = "/switches"
_LONGEST = 500
_MINUTES, _MOST_MINUTES = 5, 525_600
_MOST_HOURS = 8_760


def switches_path(name: str) -> str:
    """The page, with a class that somebody wants to switch off."""
    return address(PATH, name=name[:_LONGEST])


def show(visit: Visit) -> Page:
    """The switches in force, and a form for another."""
    seen = Switches(visit.config).look()
    data = {
        "switches": [_row(switch) for switch in seen.switches],
        "away": [{"server": server, "error": cut(str(error), MOST_LETTERS)} for server, error in seen.away.items()],
        "name": visit.text("name", most=_LONGEST),
        "minutes": _MINUTES,
        "most_minutes": _MOST_MINUTES,
        "most_hours": _MOST_HOURS,
        "longest": _LONGEST,
        "actions": {verb: f"{PATH}/{verb}" for verb in ("drop", "defer", "clear")},
    }
    return Page("switches", "Switches", data, tab=PATH)


def _row(switch: SwitchInForce) -> dict[str, Any]:
    return {
        "name": switch.name,
        "path": f"/metrics/{segment(switch.name)}",
        "action": switch.action,
        "delay_seconds": switch.delay_seconds,
        "keep": switch.keep,
        "since": moment(switch.since),
        "until": moment(switch.until),
        "by": cut(switch.by, MOST_LETTERS),
        "reason": cut(switch.reason, MOST_LETTERS),
        "acted": switch.acted,
        "missing_on": list(switch.missing_on),
        "differs_on": list(switch.differs_on),
    }


def drop(visit: Visit) -> Done:
    """Have the jobs of a class dropped."""
    name, given = _name(visit), _given(visit)
    Switches(visit.config).drop(name, delete=_deletes(visit), **given)
    return Done(PATH, Words("Jobs of {name} are dropped from now on", name=cut(name)), {"name": name})


def _deletes(visit: Visit) -> bool:
    return visit.choice("delete", ("0", "1"), "0") == "1"


def _sure(visit: Visit) -> Words:
    """The name was typed, and what is deleted does not come back."""
    name = _name(visit)
    question = (
        Words("Delete all jobs of {name} that come up, for good?", name=cut(name))
        if _deletes(visit)
        else Words("Put all jobs of {name} that come up into the quarantine?", name=cut(name))
    )
    known = known_jobs(visit.config)
    return Words("No live worker knows a job of this name") + question if known and name not in known else question


def defer(visit: Visit) -> Done:
    """Have the jobs of a class put off."""
    name, given = _name(visit), _given(visit)
    minutes = visit.number("minutes", default=_MINUTES, highest=_MOST_MINUTES)
    Switches(visit.config).defer(name, minutes * 60, **given)
    return Done(PATH, Words("Jobs of {name} are put off from now on", name=cut(name)), {"name": name})


def clear(visit: Visit) -> Done:
    """Let the jobs of a class run again."""
    name = _name(visit)
    cleared = Switches(visit.config).clear(name)
    said = Words("Jobs of {name} run again" if cleared else "No switch is set for {name}", name=cut(name))
    return Done(PATH, said, {"name": name, "cleared": cleared})


def _name(visit: Visit) -> str:
    name = visit.text("name", most=_LONGEST)
    if not name:
        raise BadRequest("Say which class is meant.")
    return name


def _given(visit: Visit) -> dict[str, Any]:
    hours = visit.number("hours", default=0, lowest=0, highest=_MOST_HOURS)
    return {
        "lasting": hours * 3_600 if hours else None,
        "by": visit.who or visit.request.client,
        "reason": visit.text("reason", most=_LONGEST),
    }


ROUTES = [
    Route("GET", PATH, LOOK, show),
    Route("POST", f"{PATH}/drop", "switch.drop", drop, asks=_sure),
    Route("POST", f"{PATH}/defer", "switch.defer", defer),
    Route("POST", f"{PATH}/clear", "switch.clear", clear),
]
