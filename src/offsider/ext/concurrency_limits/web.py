"""The tab of concurrency limits: which classes are limited, what holds their slots, what is parked, and ways to act."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from offsider.ext.concurrency_limits.limits import Limits
from offsider.wiring.web_tab import (
    Cell,
    WebBadge,
    WebButton,
    WebButtons,
    WebFacts,
    WebLink,
    WebNote,
    WebPage,
    WebTab,
    WebTable,
    WebTime,
)

if TYPE_CHECKING:
    from offsider.ext.concurrency_limits.limits import Limit
    from offsider.wiring.web_tab import Block, WebVisit

PATH = "/limits"
_MOST = 100
_COLUMNS = ("Job", "Limit", "In use", "Parked", "")


def make_tab() -> WebTab:
    return WebTab(
        "limits",
        "Limits",
        PATH,
        routes={"": show_all, "/{name}": show_one},
        actions={
            "/{name}/pause": pause,
            "/{name}/resume": resume,
            "/{name}/set": set_limit,
            "/{name}/unset": unset,
            "/{name}/quarantine": put_aside,
            "/{name}/delete": delete,
        },
        job_facts=job_facts,
    )


def show_all(visit: WebVisit) -> WebPage:
    limits = list(Limits(visit.config))
    table = WebTable("Classes", _COLUMNS, [_row(limit) for limit in limits], empty="No class has a limit.")
    return WebPage("Concurrency limits", [table])


def show_one(visit: WebVisit) -> WebPage | None:
    limits, name = Limits(visit.config), visit.path("name")
    limit = limits.find(name)
    holders, parked = limits.holders(name, _MOST), limits.parked(name, 0, _MOST)
    if limit.limit is None and limit.declared is None and limit.set_to is None and not (holders or parked):
        return None
    facts: dict[str, Cell] = {
        "Limit": _shown(limit),
        "In code": limit.declared,
        "Set at run time": limit.set_to,
        "In use": limit.in_use,
        "Parked": limit.parked,
    }
    running: list[list[Cell]] = [[_job_link(holder.jid), holder.process, WebTime(holder.since)] for holder in holders]
    waiting: list[list[Cell]] = [
        [_job_link(record.jid), record.queue, WebTime(record.enqueued_at)] for record in parked
    ]
    blocks: list[Block] = [
        WebFacts("Facts", facts),
        WebButtons(_buttons(limit)),
        WebTable("Runs that have a slot", ("Job", "Process", "Since"), running, empty="No slot is in use."),
        WebTable("Parked jobs, the next one first", ("Job", "Queue", "Enqueued"), waiting, empty="No job is parked."),
    ]
    if limit.parked > len(parked):
        blocks.append(WebNote(f"These are the first {len(parked)} of {limit.parked} parked jobs."))
    return WebPage("Concurrency limit", blocks, subject=name)


def pause(visit: WebVisit) -> str:
    name = visit.path("name")
    Limits(visit.config).pause(name)
    return f"Paused: {name}"


def resume(visit: WebVisit) -> str:
    name = visit.path("name")
    Limits(visit.config).resume(name)
    return f"Resumed: {name}"


def set_limit(visit: WebVisit) -> str:
    name, limit = visit.path("name"), visit.number("limit", default=1, lowest=1, highest=1_000_000)
    Limits(visit.config).set(name, limit)
    return f"Limit of {name}: {limit}"


def unset(visit: WebVisit) -> str:
    name = visit.path("name")
    Limits(visit.config).unset(name)
    return f"Limit of {name}: as in code"


def put_aside(visit: WebVisit) -> str:
    name = visit.path("name")
    return f"Put aside: {Limits(visit.config).quarantine(name)}"


def delete(visit: WebVisit) -> str:
    name = visit.path("name")
    return f"Deleted: {Limits(visit.config).delete(name)}"


def job_facts(payload: Mapping[str, Any]) -> Mapping[str, Cell]:
    """The limit of a job's class, on the job's page."""
    limit, name = payload.get("concurrency_limit"), payload.get("class")
    return {"Concurrency limit": WebLink(str(limit), _path(str(name)))} if limit and name else {}


def _row(limit: Limit) -> list[Cell]:
    turn = _resume_button(limit) if limit.paused else _pause_button(limit)
    return [WebLink(limit.name, _path(limit.name)), _shown(limit), limit.in_use, limit.parked, turn]


def _shown(limit: Limit) -> Cell:
    if limit.paused:
        return WebBadge("paused", "warn")
    return "none" if limit.limit is None else limit.limit


def _buttons(limit: Limit) -> list[WebButton]:
    buttons = [_resume_button(limit) if limit.paused else _pause_button(limit)]
    now = limit.set_to or limit.declared or limit.limit
    if now:
        buttons += [
            _set_button(limit, number)
            for number in dict.fromkeys((now // 2, now - 1, now + 1, now * 2))
            if number not in (0, now)
        ]
    if limit.set_to is not None:
        buttons.append(WebButton("As in code", _path(limit.name, "unset")))
    if limit.parked:
        buttons += [
            WebButton(
                "Put parked jobs aside",
                _path(limit.name, "quarantine"),
                confirm="Put all parked jobs of this class aside? They can be restored from the quarantine.",
            ),
            WebButton(
                "Delete parked jobs",
                _path(limit.name, "delete"),
                confirm="Delete all parked jobs of this class for good?",
                danger=True,
            ),
        ]
    return buttons


def _pause_button(limit: Limit) -> WebButton:
    return WebButton("Pause", _path(limit.name, "pause"))


def _resume_button(limit: Limit) -> WebButton:
    return WebButton("Resume", _path(limit.name, "resume"))


def _set_button(limit: Limit, number: int) -> WebButton:
    return WebButton(f"Limit {number}", _path(limit.name, "set"), fields={"limit": str(number)})


def _path(name: str, action: str = "") -> str:
    path = f"{PATH}/{quote(name, safe='')}"
    return f"{path}/{action}" if action else path


def _job_link(jid: str) -> WebLink:
    return WebLink(jid, f"/search?q={quote(jid)}")
