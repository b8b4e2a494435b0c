"""The tab of periodic jobs: a list, and a page for each with its next ticks and its history, without arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from offsider.config.web_tab import (
    Cell,
    WebBadge,
    WebButton,
    WebButtons,
    WebFacts,
    WebLink,
    WebNote,
    WebPage,
    WebRequest,
    WebTab,
    WebTable,
    WebTime,
)
from offsider.ext.periodic.jobs import PeriodicJob, PeriodicJobs
from offsider.ext.periodic.store import HistoryLine

NAME = "periodic"
PATH = "/periodic"
NEXT_RUNS = 10
_TONES = {"tick": "good", "run": "info", "stopped": "warn", "skipped": "bad"}


def tab() -> WebTab:
    """Build the tab."""
    return WebTab(
        NAME,
        "Periodic",
        PATH,
        routes={"": every, "/{name}": one},
        actions={"/{name}/run": _acting(run), "/{name}/pause": _acting(pause), "/{name}/resume": _acting(resume)}
        | {"/{name}/remove": _acting(remove)},
        job_facts=job_facts,
    )


def every(request: WebRequest) -> WebPage:
    """Show all periodic jobs."""
    rows = [_row(each) for each in PeriodicJobs(request.installation, server=request.installation.name)]
    columns = ["Name", "Cron", "Time zone", "Job", "Next", "Last", "State", ""]
    return WebPage("Periodic", [WebTable("Periodic jobs", columns, rows, "No periodic jobs are registered.")])


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


def run(job: PeriodicJob, request: WebRequest) -> str:
    """Push the job now."""
    jid = job.run(by=request.who or "web")
    return f"Pushed: {jid}" if jid else "Client middleware canceled the push"


def pause(job: PeriodicJob, _request: WebRequest) -> str:
    """Pause the ticks of the job."""
    job.pause()
    return f"Paused: {job.name}"


def resume(job: PeriodicJob, _request: WebRequest) -> str:
    """Resume the ticks of the job."""
    job.resume()
    return f"Resumed: {job.name}"


def remove(job: PeriodicJob, _request: WebRequest) -> str:
    """Remove a job that was added at run time."""
    job.remove()
    return f"Deleted: {job.name}"


def _acting(act: Callable[[PeriodicJob, WebRequest], str]) -> Callable[[WebRequest], str]:
    def action(request: WebRequest) -> str:
        found = PeriodicJobs(request.installation, server=request.installation.name).find(request.path("name"))
        return "Periodic job not found" if found is None else act(found, request)

    return action


def _row(job: PeriodicJob) -> list[Cell]:
    entry, last = job.entry, job.last
    runs = job.next_runs(1)
    following = WebTime(runs[0].timestamp()) if runs and not job.paused else None
    cells: list[Cell] = [WebLink(entry.name, f"{PATH}/{entry.name}"), entry.cron, entry.tz, entry.job, following]
    return [*cells, None if last is None else WebTime(last.at), _state(job), _buttons(job)[0]]


def _state(job: PeriodicJob) -> WebBadge:
    if job.paused:
        return WebBadge("paused", "warn")
    if not job.versions:
        return WebBadge("no worker", "bad")
    return WebBadge("differs", "warn") if job.versions > 1 else WebBadge("active", "good")


def _buttons(job: PeriodicJob) -> list[WebButton]:
    path = f"{PATH}/{job.name}"
    other = WebButton("Resume", f"{path}/resume") if job.paused else WebButton("Pause", f"{path}/pause")
    buttons = [WebButton("Run now", f"{path}/run", confirm=f"Run {job.name} now?"), other]
    if job.entry.source == "redis":
        buttons.append(WebButton("Delete", f"{path}/remove", confirm=f"Permanently delete {job.name}?", danger=True))
    return buttons


def _history_row(line: HistoryLine, job: PeriodicJob) -> list[Cell]:
    what = f"{line.how}: {line.count}" if line.count else line.how
    tick = job.entry.ticks.local(line.tick).isoformat(sep=" ")
    shown = WebLink(line.jid, f"/job/{line.jid}") if line.jid else None
    return [tick, WebTime(line.at), WebBadge(what, _TONES.get(line.how, "")), shown, line.by]
