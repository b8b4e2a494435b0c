"""The tab of limiters: their use and statistics, and actions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from offsider.config.web_tab import (
    Cell,
    WebBadge,
    WebButton,
    WebButtons,
    WebFacts,
    WebFilter,
    WebLink,
    WebPage,
    WebPager,
    WebScan,
    WebTab,
    WebTable,
)
from offsider.core.errors import UnknownSubject
from offsider.ext.limiters.limiter_set import LimiterSet
from offsider.inspector.scan import PAGE_BUDGET_MS, PAGE_MATCHES

if TYPE_CHECKING:
    from offsider.config.web_tab import WebRequest
    from offsider.ext.limiters.limiter_set import LimiterState

PATH = "/limiters"
_UNITS: dict[float, str] = {1: "second", 60: "minute", 3_600: "hour", 86_400: "day"}
_COLUMNS = ("Limiter", "Kind", "Limit", "Used", "Allowed", "Waited", "Refused")


def make_tab() -> WebTab:
    return WebTab(
        "limiters",
        "Rate limits",
        PATH,
        within="/fleet",
        routes={"": show_all, "/{kind}/{name}": show_one},
        actions={
            "/{kind}/{name}/reset": partial(_act, LimiterSet.reset, "Reset"),
            "/{kind}/{name}/delete": partial(_act, LimiterSet.delete, "Deleted"),
        },
    )


def show_all(request: WebRequest) -> WebPage:
    limiters, name, rows = LimiterSet(request.installation), request.text("name"), request.rows()
    if name:
        chunk = limiters.scan(name, request.text("cursor"), PAGE_BUDGET_MS, PAGE_MATCHES)
        found = sorted(chunk.entries, key=lambda state: (state.name, state.kind))
        pager: WebPager | WebScan = WebScan(chunk.scanned, chunk.total, chunk.cursor)
    else:
        found, pager = limiters.page(rows.start, rows.stop - rows.start), WebPager(len(limiters))
    empty = "No limiter has this name or kind." if name else "No limiters were used."
    table = WebTable("Rate limits", _COLUMNS, [_row(state) for state in found], empty, pager)
    return WebPage("Rate limits", [table], filter=WebFilter({"name": "Name or kind"}))


def show_one(request: WebRequest) -> WebPage | None:
    state = LimiterSet(request.installation).find(request.path("kind"), request.path("name"))
    if state is None:
        return None
    facts: dict[str, Cell] = {
        "Kind": state.kind,
        "Limit": limit_of(state),
        "Used": state.used,
        "Allowed": state.allowed,
        "Without waiting": state.immediate,
        "After waiting": state.waited,
        "Time waited": f"{state.wait_seconds:.3f} s",
        "Refused": state.overages,
        **({"Unreadable fields": ", ".join(state.unreadable)} if state.unreadable else {}),
        "Wait timeout": f"{state.wait_timeout_seconds:g} s",
    }
    if state.kind == "concurrent":
        facts |= {
            "Time held": f"{state.held_seconds:.3f} s",
            "Reclaimed slots": state.reclaimed,
            "Lock timeout": f"{state.lock_timeout_seconds:g} s",
        }
    buttons = [
        WebButton(
            "Reset",
            limiter_path(state, "reset"),
            confirm=f"Reset {state.kind} {state.name}? Its uses and statistics are deleted.",
        ),
        WebButton("Delete", limiter_path(state, "delete"), confirm=f"Delete {state.kind} {state.name}?", danger=True),
    ]
    return WebPage("Limiter", [WebFacts("Use", facts), WebButtons(buttons)], subject=state.name)


def _act(act: Callable[[LimiterSet, str, str], bool], done: str, request: WebRequest) -> str:
    kind, name = request.path("kind"), request.path("name")
    if not act(LimiterSet(request.installation), kind, name):
        raise UnknownSubject(f"there is no {kind} limiter {name!r}: see offsider limiters")
    return f"{done}: {kind} {name}"


def limit_of(state: LimiterState) -> str:
    """Return the limit with its interval, for people."""
    if state.kind == "concurrent":
        return f"{state.limit:,}"
    if state.kind == "points":
        return f"{state.limit:,}, {state.limit / state.interval_seconds:g}/s"
    interval = _UNITS.get(state.interval_seconds, f"{state.interval_seconds:g} s")
    return f"{state.limit:,} / {interval}"


def _row(state: LimiterState) -> list[Cell]:
    return [
        WebLink(state.name, limiter_path(state)),
        WebBadge("unreadable fields", "bad") if state.unreadable else state.kind,
        limit_of(state),
        state.used,
        state.allowed,
        state.waited,
        state.overages,
    ]


def limiter_path(state: LimiterState, action: str = "") -> str:
    """Return the address of a limiter, or of an action on it."""
    path = f"{PATH}/{state.kind}/{state.name}"
    return f"{path}/{action}" if action else path
