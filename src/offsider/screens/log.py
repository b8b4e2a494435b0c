"""The tab of the event log: deploys, deaths, pauses and actions in order, each as one sentence, also as Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from offsider.config.addresses import FLEET, LOG, class_path, error_path, job_path, jobs_path, log_path, queue_path
from offsider.config.web_tab import (
    Cell,
    WebBadge,
    WebFacts,
    WebFilter,
    WebLink,
    WebLinks,
    WebPage,
    WebPager,
    WebTab,
    WebTable,
)
from offsider.core.controls import QUEUE, class_of, is_class
from offsider.core.wording import counted
from offsider.inspector.events import KINDS, Event, EventLog
from offsider.screens import audit, time_ranges

if TYPE_CHECKING:
    from offsider.config.web_tab import WebRequest

MARKDOWN = f"{LOG}.md"
_ALL = 100_000
_BAD, _WARN, _GOOD, _INFO = "bad", "warn", "good", "info"
_TONES = {
    "process-died": _BAD,
    "poison-pill": _BAD,
    "error-new": _BAD,
    "error-returned": _BAD,
    "periodic-orphaned": _BAD,
    "periodic-missed": _WARN,
    "periodic-paused": _WARN,
    "process-quiet": _WARN,
    "control-set": _WARN,
    "control-removed": _GOOD,
    "control-ended": _GOOD,
    "periodic-resumed": _GOOD,
    "reconnected": _GOOD,
    "finding-new": _BAD,
    "finding-ended": _GOOD,
    "deploy": _INFO,
    "action": _INFO,
}
#: Characters that Markdown or its HTML would interpret.
_MARKUP = re.compile(r"[\\`*_\[\]<>#|&~]")


# ------------------------------------------------------------------------------------- sentences


def sentence(event: Event) -> str:
    """Return what happened as one sentence."""
    of_kind = _SENTENCES.get(event.kind)
    if "text" in event.fields:
        return event.fields["text"]
    return _other(event) if of_kind is None else of_kind(event)


def _started(event: Event) -> str:
    release = event.fields.get("release")
    return f"{event.subject} started{f' with release {release}' if release else ''}."


def _died(event: Event) -> str:
    return f"{event.subject} died: it {event.fields.get('how', 'ended')} and held {_jobs(event, 'jobs')}."


def _deploy(event: Event) -> str:
    if "process" not in event.fields:
        return f"{event.who or 'A program'} recorded the deploy {event.subject}."
    before = event.fields.get("before")
    after = f", after {before}" if before else ""
    return f"Release {event.subject} was deployed{after}: {event.fields['process']} was its first process."


def _control_set(event: Event) -> str:
    reason = f": {event.fields['reason']}" if event.fields.get("reason") else "."
    what = "pause" if event.fields.get("action") == "hold" else event.fields.get("jobs", "")
    if what == "pause":
        return f"{_who(event)} paused {_about(event)}{reason}"
    return f"{_who(event)} set a control, jobs of {_about(event)} are {what}{reason}"


def _action(event: Event) -> str:
    name, chosen = event.fields.get("action", ""), event.fields.get("filter")
    where = f" on {event.subject}" if event.subject else ""
    if error := event.fields.get("error"):
        return f"{_who(event)} failed to do {name}{where}: {error}"
    return f"{_who(event)} did {name}{where}{f' ({chosen})' if chosen else ''}: {event.fields.get('outcome', '')}"


def _poison(event: Event) -> str:
    name = event.fields.get("class", "unknown class")
    died = counted(_number(event, "processes"), "process")
    return f"{name} {event.subject} is a poison pill: {died} died with it."


def _error(event: Event) -> str:
    new = "failed with a new error" if event.kind == "error-new" else "fails again with an error that had ended"
    release = f" in release {event.fields['release']}" if event.fields.get("release") else ""
    return f"{event.subject} {new}{release}: {event.fields.get('error_class', '')}"


def _other(event: Event) -> str:
    fields = " ".join(f"{name}={value}" for name, value in event.fields.items())
    return " ".join(filter(None, (event.kind, event.subject, fields)))


_SENTENCES: Mapping[str, Callable[[Event], str]] = {
    "process-started": _started,
    "process-ended": lambda event: f"{event.subject} ended.",
    "process-died": _died,
    "process-quiet": lambda event: f"{event.subject} is quiet: it claims no new jobs.",
    "deploy": _deploy,
    "control-set": _control_set,
    "control-removed": lambda event: f"{_who(event)} resumed {_about(event)}.",
    "control-ended": lambda event: f"The control of {_about(event)} has expired.",
    "periodic-paused": lambda event: f"{_who(event)} paused the periodic job {event.subject}.",
    "periodic-resumed": lambda event: f"{_who(event)} resumed the periodic job {event.subject}.",
    "periodic-missed": lambda event: (
        f"The periodic job {event.subject} skipped {counted(_number(event, 'count'), 'tick')}: no worker was running."
    ),
    "periodic-orphaned": lambda event: f"No live process pushes the periodic job {event.subject} to this server.",
    "poison-pill": _poison,
    "error-new": _error,
    "error-returned": _error,
    "finding-new": lambda event: f"Found: {event.fields.get('what', event.subject)}",
    "finding-ended": lambda event: f"Ended: {event.fields.get('what', event.subject)}",
    "reconnected": lambda event: f"Redis was unreachable for {event.fields.get('seconds', '?')} s.",
    "action": _action,
}


def _who(event: Event) -> str:
    return event.who or "An unknown client"


def _about(event: Event) -> str:
    queue = event.subject.removeprefix(QUEUE)
    return event.subject if queue == event.subject else f"queue {queue}"


def _jobs(event: Event, field: str) -> str:
    return counted(_number(event, field), "job")


def _number(event: Event, field: str) -> int:
    text = event.fields.get(field, "")
    return int(text) if text.isdecimal() else 0


# ------------------------------------------------------------------------------------- the page


def show(request: WebRequest) -> WebPage:
    """Show the events, newest first."""
    found, total = _page(request)
    chosen = {name: request.text(name) for name in _FILTER.fields}
    faces = WebLinks(
        [
            WebLink("Copy as Markdown", log_path(**chosen).replace(LOG, MARKDOWN, 1)),
            WebLink("JSON", log_path(**chosen, format="json")),
        ]
    )
    rows = [_row(request, event) for event in found]
    table = WebTable("Log", ("Time (UTC)", "Kind", "Event", "Subject", "Who"), rows, "No events.", WebPager(total))
    return WebPage("Log", [table, WebFacts("Postmortem", {"This timeline": faces})], filter=_FILTER)


def markdown(request: WebRequest) -> str:
    """Return the filtered events, oldest first, as a list in Markdown: the timeline of a postmortem."""
    lines = [f"- **{clock(event.at)}** {_escaped(_shown(request, event))}\n" for event in reversed(_found(request))]
    return "".join(lines) or "No events.\n"


def clock(at: float) -> str:
    """Format epoch seconds as ``2026-11-28 03:47:10`` in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}"


def _page(request: WebRequest) -> tuple[list[Event], int]:
    rows = request.rows()
    if not any(request.text(name) for name in _FILTER.fields):  # without a filter the length is known
        log = EventLog(request.installation)
        return log.read(count=rows.stop)[rows], len(log)
    found = _found(request)
    return found[rows], len(found)


def _found(request: WebRequest) -> list[Event]:
    now = request.installation.config.clock.now()
    return EventLog(request.installation).read(
        since=time_ranges.moment(request.text("since"), now),
        until=time_ranges.moment(request.text("until"), now),
        kinds=kinds_of(request.text("kind")),
        who=request.text("who"),
        subject=request.text("subject"),
        count=_ALL,
    )


def kinds_of(text: str) -> list[str]:
    """Return the kinds that contain a text, such as ``died``; the text itself if there are none; none without one."""
    return [kind for kind in KINDS if text in kind] or [text] if text else []


def _row(request: WebRequest, event: Event) -> list[Cell]:
    return [
        clock(event.at),
        WebBadge(event.kind, _TONES.get(event.kind, "")),
        _shown(request, event),
        _subject(request, event),
        WebLink(event.who, log_path(who=event.who)) if event.who else "",
    ]


def _shown(request: WebRequest, event: Event) -> str:
    """Return the sentence of an event; without the key of a class, which is made of arguments, if those are hidden."""
    text = sentence(event)
    hidden = _without_key(request, event.subject)
    return text if hidden == event.subject else text.replace(event.subject, hidden)


def _without_key(request: WebRequest, subject: str) -> str:
    own = class_of(subject)
    return own if own != subject and request.unquoted(subject) != subject else subject


def _subject(request: WebRequest, event: Event) -> Cell:
    subject = _without_key(request, event.subject)
    path = _address(event, subject)
    return WebLink(subject, path) if path else subject


def _address(event: Event, subject: str) -> str:
    """Return the address of what an event is about; empty if it has none."""
    kind = event.kind
    if "quarantine" in event.fields.get("undo", ""):
        return jobs_path("quarantine")
    if kind.startswith(("process-", "periodic-")):
        return FLEET
    if kind == "poison-pill" and subject:
        return job_path(subject)
    if kind.startswith("error-"):
        return error_path(event.fields.get("group", subject))
    if kind.startswith("control-"):
        queue = subject.removeprefix(QUEUE)
        return queue_path(queue) if queue != subject else class_path(class_of(subject)) if is_class(subject) else ""
    return log_path(subject=subject) if subject else ""


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", audit.shown(" ".join(text.split())))


_FILTER = WebFilter(
    {
        "who": "Who",
        "kind": "Kind",
        "subject": "Subject",
        "since": "Since (2h, or a time in UTC)",
        "until": "Until",
    }
)

TAB = WebTab("log", "Log", LOG, routes={"": show}, texts={MARKDOWN: markdown})
