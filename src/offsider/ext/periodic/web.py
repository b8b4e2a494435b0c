"""The tab of periodic jobs: a list, and a page for each with its next ticks and its history, without arguments."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

from offsider.config.web_tab import (
    Cell,
    WebBadge,
    WebButton,
    WebButtons,
    WebFacts,
    WebField,
    WebForm,
    WebLink,
    WebNote,
    WebPage,
    WebRequest,
    WebTab,
    WebTable,
    WebTime,
)
from offsider.core.errors import ConfigurationError
from offsider.ext.periodic.entry import REDIS, Entry, make, registry_of
from offsider.ext.periodic.jobs import PeriodicJob, PeriodicJobs
from offsider.ext.periodic.store import HistoryLine

NAME = "periodic"
PATH = "/periodic"
NEXT_RUNS = 10
_MAX_ARGUMENTS, _MAX_NAME = 10_000, 200
_TONES = {"tick": "good", "run": "info", "stopped": "warn", "skipped": "bad"}


def make_tab() -> WebTab:
    return WebTab(
        NAME,
        "Periodic",
        PATH,
        within="/fleet",
        routes={"": every, "/{name}": one},
        actions={
            "/save": save,
            "/{name}/run": _acting(run),
            "/{name}/pause": _acting(pause),
            "/{name}/resume": _acting(resume),
            "/{name}/remove": _acting(remove),
        },
        fields={
            "/{name}/pause": ("reason",),
            "/save": ("name", "cron", "job", "queue", "tz", "arguments", "description"),
        },
        job_facts=job_facts,
    )


def every(request: WebRequest) -> WebPage:
    """Show all periodic jobs."""
    jobs = PeriodicJobs(request.installation, server=request.installation.name)
    return WebPage("Periodic", [table(list(jobs)), _form(request, None)])


def table(jobs: Sequence[PeriodicJob], more: WebLink | None = None) -> WebTable:
    """Return the table of these periodic jobs."""
    columns = ("Name", "Cron", "Time zone", "Job", "Last", "Next", "Missed", "State", "")
    return WebTable("Periodic", columns, list(map(_row, jobs)), "No periodic jobs are registered.", more=more)


def one(request: WebRequest) -> WebPage | None:
    """Show one periodic job."""
    found = PeriodicJobs(request.installation, server=request.installation.name).find(request.path("name"))
    if found is None:
        return None
    entry = found.entry
    facts: dict[str, Cell] = {
        "Description": entry.description,
        "Cron": entry.cron,
        "Schedule": entry.ticks.words,
        "Time zone": entry.tz,
        "Job": entry.job,
        "Queue": entry.queue,
        "Registered in": entry.source,
        "Max lateness": f"{entry.grace_seconds:g} s",
        "State": _state(found),
        "Last seen in a process": "" if found.seen_at is None else WebTime(found.seen_at),
    }
    runs: list[list[Cell]] = [
        [when.isoformat(sep=" "), WebTime(when.timestamp())] for when in found.next_runs(NEXT_RUNS)
    ]
    history = [_history_row(line, found) for line in found.history()]
    notes = [WebNote("Live processes define this job differently. The latest definition is shown.", "warn")]
    return WebPage(
        "Periodic",
        [
            *(notes if found.versions > 1 else []),
            WebFacts("Job", {name: fact for name, fact in facts.items() if fact != ""}),
            WebButtons(_buttons(found)),
            WebTable("Next", ["Time", ""], runs),
            WebTable("History", ["Tick", "", "Event", "Job", "By"], history, "No history yet."),
            *([_form(request, entry)] if entry.source == REDIS else []),
        ],
        subject=entry.name,
    )


def job_facts(payload: Mapping[str, Any]) -> Mapping[str, Cell]:
    """Show the periodic job and the tick of a job."""
    origin: Any = payload.get("periodic")
    if not isinstance(origin, dict):
        return {}
    name, at = (cast("dict[str, Any]", origin).get(key) for key in ("name", "at"))
    return {"Periodic job": WebLink(str(name), f"{PATH}/{name}"), "Tick": WebTime(float(at or 0))}


def _form(request: WebRequest, entry: Entry | None) -> WebForm:
    """Return the form that adds an entry, or changes one that was added at run time."""
    arguments = "" if entry is None else json.dumps(entry.kwargs or list(entry.args))
    # Redacted arguments stay out of the form, and unchanged when it is sent.
    shown = arguments if entry is None or request.unquoted(arguments) == arguments else ""
    fields = (
        WebField("name", "Name", entry.name if entry else "", required=True),
        WebField("cron", "Cron, or @every 10s", entry.cron if entry else "", required=True),
        WebField("job", "Job", entry.job if entry else "", required=True),
        WebField("queue", "Queue (empty: that of the job)", entry.queue if entry else ""),
        WebField("tz", "Time zone", entry.tz if entry else registry_of(request.installation.config).defaults[0]),
        WebField("arguments", 'Arguments: [1, 2] or {"days": 2}', shown),
        WebField("description", "Description", entry.description if entry else ""),
    )
    title, verb = ("Add a periodic job", "Add") if entry is None else ("Change", "Save")
    return WebForm(title, fields, [WebButton(verb, f"{PATH}/save")])


def save(request: WebRequest) -> str:
    """Add a periodic job, or change one that was added at run time; what the form does not have is kept."""
    jobs, name = PeriodicJobs(request.installation), request.text("name")
    known, arguments = jobs.find(name), request.text("arguments", most=_MAX_ARGUMENTS)
    options: dict[str, Any] = {field: text for field in ("queue", "tz") if (text := request.text(field))}
    defaults = registry_of(request.installation.config).defaults
    entry = make(
        name, request.text("cron"), request.text("job", most=_MAX_NAME), options, defaults=defaults, source=REDIS
    )
    entry = replace(entry, description=request.text("description", most=_MAX_ARGUMENTS))
    if known is not None and known.entry.source == REDIS:
        old = known.entry
        kept = {option: value for option, value in old.options.items() if option != "queue"}
        entry = replace(
            old,
            cron=entry.cron,
            job=entry.job,
            tz=entry.tz,
            description=entry.description,
            options={**kept, **entry.options},
        )
    if arguments:
        entry = replace(entry, **_arguments(arguments))
    return f"Saved: {jobs.save(entry).name}"


def _arguments(text: str) -> dict[str, Any]:
    """Parse the positional or the named arguments of a form. Raises ConfigurationError."""
    try:
        given: object = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if isinstance(given, list):
        return {"args": given, "kwargs": {}}
    if isinstance(given, dict):
        return {"args": (), "kwargs": given}
    raise ConfigurationError('arguments: expected JSON such as [1, 2] or {"days": 2}')


def run(job: PeriodicJob, request: WebRequest) -> str:
    """Push the job now."""
    jid = job.run(by=request.actor)
    return f"Pushed: {jid}" if jid else "Client middleware canceled the push"


def pause(job: PeriodicJob, request: WebRequest) -> str:
    """Pause the ticks of the job."""
    job.pause(by=request.actor, reason=request.text("reason"))
    return f"Paused: {job.name}"


def resume(job: PeriodicJob, request: WebRequest) -> str:
    """Resume the ticks of the job."""
    job.resume(by=request.actor)
    return f"Resumed: {job.name}"


def remove(job: PeriodicJob, _request: WebRequest) -> str:
    """Remove a job that was added at run time."""
    job.remove()
    return f"Deleted: {job.name}"


def _acting(act: Callable[[PeriodicJob, WebRequest], str]) -> Callable[[WebRequest], str]:
    def action(request: WebRequest) -> str:
        jobs = PeriodicJobs(request.installation, server=request.installation.name)
        return act(jobs[request.path("name")], request)

    return action


def _row(job: PeriodicJob) -> list[Cell]:
    entry, last = job.entry, job.last
    runs = job.next_runs(1) if job.versions and not job.paused else []
    return [
        WebLink(entry.name, f"{PATH}/{entry.name}"),
        entry.cron,
        entry.tz,
        entry.job,
        None if last is None else WebTime(last.at),
        WebTime(runs[0].timestamp()) if runs else None,
        last.count if last is not None and last.how == "skipped" else None,
        _state(job),
        _buttons(job)[1],
    ]


def _state(job: PeriodicJob) -> WebBadge:
    if job.paused:
        return WebBadge(f"paused {_paused(job)}", "warn")
    if not job.versions:
        return WebBadge("no live process has it", "bad")
    return WebBadge("differs", "warn") if job.versions > 1 else WebBadge("active", "good")


def _paused(job: PeriodicJob) -> str:
    """Return when, by whom and why it was paused; empty if it is not."""
    pause = job.pause_origin
    if pause is None:
        return ""
    since = f"{datetime.fromtimestamp(pause.at, UTC):%Y-%m-%d %H:%M:%S} UTC" if pause.at else ""
    by = f"by {pause.by or 'an unknown client'}"
    return f"{since} {by}{f': {pause.reason}' if pause.reason else ''}".strip()


def _buttons(job: PeriodicJob) -> list[WebButton]:
    path = f"{PATH}/{job.name}"
    other = WebButton("Resume", f"{path}/resume") if job.paused else WebButton("Pause", f"{path}/pause")
    buttons = [WebButton("Run now", f"{path}/run", confirm=f"Run {job.name} now?"), other]
    if job.entry.source == REDIS or not job.versions:
        buttons.append(WebButton("Delete", f"{path}/remove", confirm=f"Permanently delete {job.name}?", danger=True))
    return buttons


def _history_row(line: HistoryLine, job: PeriodicJob) -> list[Cell]:
    what = f"{line.how}: {line.count}" if line.count else line.how
    tick = job.entry.ticks.local(line.tick).isoformat(sep=" ")
    shown = WebLink(line.jid, f"/job/{line.jid}") if line.jid else None
    return [tick, WebTime(line.at), WebBadge(what, _TONES.get(line.how, "")), shown, line.by]
