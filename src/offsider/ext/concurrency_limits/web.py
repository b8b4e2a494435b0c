"""The tab of concurrency limits: limited classes, their slots and held jobs, and actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from offsider.config.web_tab import (
    Cell,
    WebBadge,
    WebButton,
    WebButtons,
    WebFacts,
    WebFilter,
    WebLink,
    WebNote,
    WebPage,
    WebPager,
    WebTab,
    WebTable,
    WebTime,
)
from offsider.ext.concurrency_limits.keys import shown_rate
from offsider.ext.concurrency_limits.limits import Limits
from offsider.ext.concurrency_limits.store import class_of

if TYPE_CHECKING:
    from offsider.config.web_tab import Block, WebRequest
    from offsider.ext.concurrency_limits.limits import Limit

PATH = "/limits"
_MOST = 100
_EVERY = {"every": "yes"}
_COLUMNS = ("Job", "Limit", "In use", "Held", "")


def make_tab() -> WebTab:
    return WebTab(
        "limits",
        "Concurrency",
        PATH,
        routes={"": show_all, "/{name}": show_one},
        actions={
            "/{name}/pause": _acting(Limits.pause, "Paused: {name}"),
            "/{name}/resume": _acting(Limits.resume, "Resumed: {name}"),
            "/{name}/set": set_limit,
            "/{name}/unset": _acting(Limits.unset, "Limit of {name}: as in code"),
            "/{name}/quarantine": _acting_on_every(Limits.quarantine, "Quarantined: {result}"),
            "/{name}/delete": _acting_on_every(Limits.delete, "Deleted: {result}"),
        },
        fields={"/{name}/set": ("limit",), "/{name}/quarantine": ("every",), "/{name}/delete": ("every",)},
        job_facts=job_facts,
    )


def show_all(request: WebRequest) -> WebPage:
    limits, text = Limits(request.installation), request.text("name")
    names = limits.names(text)
    rows = [_row(request, limit) for limit in limits.read(names[request.rows()])]
    empty = "No class or key has this name." if text else "No concurrency limits."
    table = WebTable("Concurrency limits", _COLUMNS, rows, empty, WebPager(len(names)))
    return WebPage("Concurrency limits", [table], filter=WebFilter({"name": "Class or key"}))


def show_one(request: WebRequest) -> WebPage | None:
    limits, name = Limits(request.installation), request.path("name")
    limit = limits.find(name)
    holders, held = limits.holders(name, _MOST), limits.held(name, 0, _MOST)
    if limit.limit is None and limit.declared is None and limit.set_to is None and not (holders or held):
        return None
    facts: dict[str, Cell] = {
        "Limit": _shown(limit),
        "Limit in code": limit.declared,
        "Set at run time": limit.set_to,
        "Rate limit": shown_rate(limit.rate) if limit.rate else None,
        "In use": limit.in_use,
        "Held": limit.held,
    }
    text = request.text("key")
    keys = limits.by_key(name, text)
    by_key: list[list[Cell]] = [[_key(request, one), one.in_use, one.held] for one in keys[request.rows()]]
    running: list[list[Cell]] = [
        [WebLink.to_job(holder.jid), holder.process, WebTime(holder.since)] for holder in holders
    ]
    waiting: list[list[Cell]] = [
        [WebLink.to_job(record.jid), record.queue, WebTime(record.enqueued_at)] for record in held
    ]
    blocks: list[Block] = [
        WebFacts("Slots", {name: fact for name, fact in facts.items() if fact is not None}),
        WebButtons(_buttons(limit) if class_of(name) == name else _clear_buttons(limit)),
        WebTable("Jobs holding a slot", ("JID", "Process", "Since"), running, empty="No slots in use."),
        WebTable("Held jobs, next first", ("JID", "Queue", "Enqueued"), waiting, empty="No held jobs."),
    ]
    if keys or text:
        table = WebTable("Keys", ("Key", "In use", "Held"), by_key, "No key contains this text.", WebPager(len(keys)))
        blocks.insert(2, table)
    if limit.held > len(held):
        blocks.append(WebNote(f"Showing the first {len(held)} of {limit.held} held jobs."))
    return WebPage(
        "Concurrency limit", blocks, subject=name, filter=WebFilter({"key": "Key"}) if keys or text else None
    )


def set_limit(request: WebRequest) -> str:
    name, limit = request.path("name"), request.number("limit", default=None)
    Limits(request.installation).set(name, limit)
    return f"Limit of {name}: {limit}"


def _acting(act: Callable[[Limits, str], object], done: str) -> Callable[[WebRequest], str]:
    def action(request: WebRequest) -> str:
        name = request.path("name")
        return done.format(name=name, result=act(Limits(request.installation), name))

    return action


def _acting_on_every(act: Callable[[Limits, str], object], done: str) -> Callable[[WebRequest], str]:
    acting = _acting(act, done)

    def action(request: WebRequest) -> str:
        request.choice("every", ("yes",), "")  # raises without it: the request may have lost a filter
        return acting(request)

    return action


def job_facts(payload: Mapping[str, Any]) -> Mapping[str, Cell]:
    """Show the limit of a job's class on the job's page."""
    limit, name = payload.get("concurrency_limit"), payload.get("class")
    return {"Concurrency limit": WebLink(str(limit), _path(str(name)))} if limit and name else {}


def _key(request: WebRequest, limit: Limit) -> Cell:
    """Return a link to a class or key; without one if the key, which is made of arguments, is hidden."""
    name = class_of(limit.name)
    if name == limit.name or request.unquoted(limit.name) == limit.name:
        return WebLink(limit.name, _path(limit.name))
    return f"{name} {request.unquoted(limit.name)}"


def _row(request: WebRequest, limit: Limit) -> list[Cell]:
    return [_key(request, limit), _shown(limit), limit.in_use, limit.held, _pause_button(limit)]


def _shown(limit: Limit) -> Cell:
    if limit.paused:
        return WebBadge("paused", "warn")
    return "none" if limit.limit is None else limit.limit


def _buttons(limit: Limit) -> list[WebButton]:
    buttons = [_pause_button(limit)]
    now = limit.set_to or limit.declared or limit.limit
    if now:
        buttons += [
            WebButton(f"Limit {number}", _path(limit.name, "set"), fields={"limit": str(number)})
            for number in dict.fromkeys((now // 2, now - 1, now + 1, now * 2))
            if number not in (0, now)
        ]
    if limit.set_to is not None:
        buttons.append(WebButton("Unset limit", _path(limit.name, "unset")))
    return [*buttons, *_clear_buttons(limit)]


def _clear_buttons(limit: Limit) -> list[WebButton]:
    if not limit.held:
        return []
    return [
        WebButton(
            "Quarantine held",
            _path(limit.name, "quarantine"),
            _EVERY,
            confirm=f"Quarantine all held jobs of {limit.name}? You can restore them there.",
        ),
        WebButton(
            "Delete held",
            _path(limit.name, "delete"),
            _EVERY,
            confirm=f"Permanently delete all held jobs of {limit.name}?",
            danger=True,
        ),
    ]


def _pause_button(limit: Limit) -> WebButton:
    """Return the button that pauses a class, or resumes a paused one."""
    return (
        WebButton("Resume", _path(limit.name, "resume"))
        if limit.paused
        else WebButton("Pause", _path(limit.name, "pause"))
    )


def _path(name: str, action: str = "") -> str:
    path = f"{PATH}/{quote(name, safe='')}"
    return f"{path}/{action}" if action else path
