"""The screen of findings: each with its facts, its next steps, and a form to mute it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from offsider.config.addresses import FINDINGS, NOW, finding_path
from offsider.config.web_tab import (
    Cell,
    WebBadge,
    WebButton,
    WebButtons,
    WebFacts,
    WebField,
    WebForm,
    WebLink,
    WebLinks,
    WebNote,
    WebPage,
    WebTab,
    WebTable,
    WebTime,
)
from offsider.inspector.finding import Finding, Severity, listing
from offsider.inspector.findings import mute, stored, unmute

if TYPE_CHECKING:
    from offsider.config.web_tab import Block, WebRequest

_TONES = {Severity.OK: "good", Severity.WARN: "warn", Severity.ERROR: "bad"}
_MAX_HOURS = 720


def show_all(request: WebRequest) -> WebPage:
    """Show all findings, most harm first."""
    rows = [
        [_badge(each), WebLink(each.what, finding_path(each.id)), WebTime(each.since), each.cause, _muted(each)]
        for each in stored(request.installation)
    ]
    columns = ("Kind", "What", "Since", "Cause", "Muted")
    return WebPage("Findings", [WebTable("Findings", columns, rows, "Nothing is wrong.")])


def show_one(request: WebRequest) -> WebPage | None:
    """Show one finding; None if it has ended."""
    wanted = request.path("finding")
    finding = next((each for each in stored(request.installation) if each.id == wanted), None)
    if finding is None:
        return None
    path = finding_path(finding.id)
    facts: dict[str, Cell] = {"Kind": _badge(finding), "Since": WebTime(finding.since), "Cause": finding.cause}
    facts |= {"Next step": "; ".join(finding.actions), **finding.numbers}
    links = [each for each in finding.buttons if isinstance(each, WebLink)]
    buttons = [each for each in finding.buttons if isinstance(each, WebButton)]
    blocks: list[Block] = [*map(WebNote, finding.details), WebFacts(finding.what, facts | _links(links))]
    if finding.muted_until is None:
        hours = WebField("hours", "Mute for hours", "1", is_number=True, required=True)
        blocks.append(WebForm("Mute", [hours], [WebButton("Mute", f"{path}/mute")]))
    else:
        buttons.append(WebButton("Unmute", f"{path}/unmute"))
        blocks.insert(0, WebNote(f"Muted by {finding.muted_by or 'an unknown user'}", "warn"))
    return WebPage("Finding", [*blocks, WebButtons(buttons)] if buttons else blocks, subject=finding.id)


def _links(links: list[WebLink]) -> dict[str, Cell]:
    return {"Evidence": WebLinks(links)} if links else {}


def _badge(finding: Finding) -> WebBadge:
    return WebBadge(finding.kind, "" if finding.muted_until else _TONES[finding.severity])


def _muted(finding: Finding) -> Cell:
    return "" if finding.muted_until is None else WebTime(finding.muted_until)


def _mute(request: WebRequest) -> str:
    hours = request.number("hours", default=1, highest=_MAX_HOURS)
    finding = mute(request.path("finding"), hours * 3_600, request.installation, by=request.who)
    return f"Muted: {finding.what}"


def _unmute(request: WebRequest) -> str:
    unmute(request.path("finding"), request.installation)
    return f"No longer muted: {request.path('finding')}"


def _json(request: WebRequest) -> Mapping[str, Any]:
    return listing(stored(request.installation))


TAB = WebTab(
    "findings",
    "Findings",
    FINDINGS,
    within=NOW,
    routes={"": show_all, "/{finding}": show_one},
    actions={"/{finding}/mute": _mute, "/{finding}/unmute": _unmute},
    fields={"/{finding}/mute": ("hours",), "/{finding}/unmute": ()},
    json={"/findings.json": _json},
)
