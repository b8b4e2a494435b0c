"""The tab of controls: what operators decided about classes of jobs, limits, slots in use and held jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from offsider.config.addresses import jobs_path
from offsider.config.web_tab import (
    Cell,
    WebBadge,
    WebButton,
    WebButtons,
    WebFacts,
    WebField,
    WebFilter,
    WebForm,
    WebLink,
    WebNote,
    WebPage,
    WebPager,
    WebTab,
    WebTable,
    WebTime,
)
from offsider.core.controls import MAX_CHARACTERS, class_of, is_class
from offsider.core.errors import UnknownSubject
from offsider.core.segments import segment
from offsider.core.suggestions import suggest
from offsider.inspector.controls import Controls, GroupSeen
from offsider.inspector.search import HELD_LISTS

if TYPE_CHECKING:
    from offsider.config.web_tab import Block, WebRequest
    from offsider.inspector.controls import ControlInForce

PATH = "/controls"
GROUP_COLUMNS = ("Group", "Limit in code", "In use", "Held")
_MAX_ROWS = 100
_MAX_HOURS, _MAX_MINUTES = 8_760, 525_600
_SUBJECT = WebField("subject", "Class, class[key], queue=NAME or selector", required=True)
_ORIGIN = (WebField("reason", "Reason"), WebField("hours", "Ends after hours (0: never)", "0", is_number=True))


def show_all(request: WebRequest) -> WebPage:
    """Show the controls, the groups, and forms to set a control."""
    controls, text = Controls(request.installation), request.text("name")
    seen, groups = controls.look(), controls.groups(text)
    found = [control for control in seen.controls if text in control.subject]
    blocks: list[Block] = [
        WebNote(f"Server {server} is unreachable: {error}", "bad") for server, error in seen.away.items()
    ]
    blocks += [
        WebTable(
            "Controls",
            ("Subject", "Jobs", "Since", "Until", "Affected", "Reason", ""),
            [_control(request, control) for control in found],
            "No controls are set.",
        ),
        *forms(""),
        WebTable(
            "Limits and held jobs",
            GROUP_COLUMNS,
            [group_row(request, group) for group in groups[request.rows()]],
            "No limits and no held jobs.",
            WebPager(len(groups)),
        ),
    ]
    return WebPage("Controls", blocks, filter=WebFilter({"name": "Class, key or queue"}))


def show_one(request: WebRequest) -> WebPage:
    """Show one subject: its control and its slots."""
    subject = request.path("subject")
    controls = Controls(request.installation)
    control = controls.find(subject)
    group = next((one for one in controls.groups(subject) if one.name == subject), GroupSeen(subject))
    text = request.text("key")
    keys = controls.keys(subject, text) if is_class(subject) else []
    held = controls.count_held(subject)
    facts: dict[str, Cell] = {
        "Jobs": "run" if control is None else control.described,
        "Limit in code": _limits(group),
        "In use": group.in_use,
        "Held": WebLink(f"{held:,}", _held_path(request, subject)) if held else 0,
    }
    blocks: list[Block] = [
        *([] if control is None else _origin(control)),
        WebFacts("Control", facts),
        *([] if control is None else [WebButtons([_resume_button(subject)])]),
        *forms(subject),
        WebTable(
            "Jobs holding a slot",
            ("JID", "Process", "Since"),
            [
                [WebLink.to_job(one.jid), one.process, WebTime(one.since)]
                for one in controls.holders(subject, _MAX_ROWS)
            ],
            "No slots in use.",
        ),
    ]
    if keys or text:
        rows: list[list[Cell]] = [[_link(request, one.name), one.in_use, one.held] for one in keys[request.rows()]]
        table = WebTable("Keys", ("Key", "In use", "Held"), rows, "No key contains this text.", WebPager(len(keys)))
        blocks.append(table)
    return WebPage("Control", blocks, subject=subject, filter=WebFilter({"key": "Key"}) if keys or text else None)


def forms(subject: str) -> list[WebForm]:
    of = WebField("subject", _SUBJECT.label, subject, required=True)
    limit = WebField("limit", "Limit", "1", is_number=True)
    minutes = WebField("minutes", "Defer by minutes", "5", is_number=True)
    kept = WebField("delete", "Dropped jobs", choices={"0": "Move to quarantine", "1": "Delete permanently"})
    verbs = ("Hold", "Limit", "Defer", "Run")
    return [
        WebForm(
            "Set a control",
            (of, *_ORIGIN, limit, minutes),
            [WebButton(verb, f"{PATH}/{verb.lower()}") for verb in verbs],
        ),
        WebForm(
            "Drop jobs",
            (of, *_ORIGIN, kept),
            [WebButton("Drop", f"{PATH}/drop", danger=True)],
            confirm="Drop these jobs instead of running them?",
        ),
    ]


def _control(request: WebRequest, control: ControlInForce) -> list[Cell]:
    notes = [f"not set on {server}" for server in control.missing_on]
    notes += [f"different on {server}" for server in control.differs_on]
    link = _link(request, control.subject)
    return [
        link,
        WebBadge("; ".join((control.described, *notes)), "bad" if notes else "warn"),
        WebTime(control.since or None),
        WebTime(control.until),
        control.acted,
        " ".join(filter(None, (control.reason, f"({control.by})" if control.by else ""))),
        _resume_button(control.subject) if isinstance(link, WebLink) else "",  # its address has the key
    ]


def in_force(control: ControlInForce) -> list[Block]:
    """Return a note about a control, and the button that ends it."""
    note = WebNote(f"Operators decided about these jobs: {control.described}.", "warn")
    return [note, *_origin(control), WebButtons([_resume_button(control.subject)])]


def _origin(control: ControlInForce) -> list[Block]:
    text = ": ".join(filter(None, (control.by, control.reason)))
    return [WebNote(text, "warn")] if text else []


def group_row(request: WebRequest, group: GroupSeen) -> list[Cell]:
    """Return the row of a group with a limit, slots in use or held jobs."""
    return [_link(request, group.name), _limits(group), group.in_use, group.held]


def _limits(group: GroupSeen) -> str:
    limits = [] if group.limit is None else [str(group.limit)]
    if group.rate.starts:
        limits.append(f"{group.rate.starts} in {timedelta(milliseconds=group.rate.window_ms)}")
    return ", ".join(limits) or "none"


def _link(request: WebRequest, subject: str) -> Cell:
    """Return a link to a subject; without one if its key, which is made of arguments, is hidden."""
    if class_of(subject) == subject or request.unquoted(subject) == subject:
        return WebLink(subject, f"{PATH}/{quote(subject, safe='')}")
    return f"{class_of(subject)} {request.unquoted(subject)}"


def _held_path(request: WebRequest, subject: str) -> str:
    """Return the address of the held jobs of a subject, of a class with all its keys."""
    if is_class(subject) and class_of(subject) == subject:
        return jobs_path(HELD_LISTS, **{"class": subject})
    return jobs_path(segment(Controls(request.installation).held_place(subject)))


def _resume_button(subject: str) -> WebButton:
    return WebButton("Resume", f"{PATH}/{quote(subject, safe='')}/resume")


# ------------------------------------------------------------------------------------- actions


def _setting(act: Callable[[WebRequest, Controls, str, dict[str, Any]], object]) -> Callable[[WebRequest], str]:
    def action(request: WebRequest) -> str:
        subject = request.text("subject", most=MAX_CHARACTERS)
        hours = request.number("hours", default=0, lowest=0, highest=_MAX_HOURS)
        origin = {"lasting": hours * 3_600 if hours else None, "by": request.actor}
        controls = Controls(request.installation)
        act(request, controls, subject, {**origin, "reason": request.text("reason", most=MAX_CHARACTERS)})
        control = controls.find(subject)
        known = controls.unknown(subject)
        more = ". No live worker declares this class" if known else ""
        return f"{subject}: {'' if control is None else control.described}{more}"

    return action


def _limit(request: WebRequest, controls: Controls, subject: str, origin: dict[str, Any]) -> None:
    controls.limit(subject, request.number("limit", default=None), **origin)


def _defer(request: WebRequest, controls: Controls, subject: str, origin: dict[str, Any]) -> None:
    controls.defer(subject, request.number("minutes", default=5, highest=_MAX_MINUTES) * 60, **origin)


def _drop(request: WebRequest, controls: Controls, subject: str, origin: dict[str, Any]) -> None:
    controls.drop(subject, delete=request.choice("delete", ("0", "1"), "0") == "1", **origin)


def _resume(request: WebRequest) -> str:
    controls, subject = Controls(request.installation), request.path("subject")
    if not controls.resume(subject, by=request.actor):
        near = suggest(subject, [control.subject for control in controls])
        raise UnknownSubject(f"no control is set for {subject}{near}")
    return f"Resumed: {subject}"


def _job_facts(payload: Mapping[str, Any]) -> Mapping[str, Cell]:
    """Show the limit of a job's class on the job's page."""
    limit, name = payload.get("concurrency_limit"), payload.get("class")
    return {"Concurrency limit": WebLink(str(limit), f"{PATH}/{quote(str(name), safe='')}")} if limit and name else {}


_FIELDS = ("subject", "reason", "hours", "limit", "minutes")

TAB = WebTab(
    "controls",
    "Controls",
    PATH,
    within="/fleet",
    routes={"": show_all, "/{subject}": show_one},
    actions={
        "/run": _setting(lambda _, controls, subject, origin: controls.run(subject, **origin)),
        "/limit": _setting(_limit),
        "/hold": _setting(lambda _, controls, subject, origin: controls.hold(subject, **origin)),
        "/defer": _setting(_defer),
        "/drop": _setting(_drop),
        "/{subject}/resume": _resume,
    },
    fields={
        **dict.fromkeys(("/run", "/limit", "/hold", "/defer"), _FIELDS),
        "/drop": ("subject", "reason", "hours", "delete"),
    },
    job_facts=_job_facts,
)
