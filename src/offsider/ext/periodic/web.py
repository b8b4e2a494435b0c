"""The tab of periodic jobs: all of them, and one with its next ticks and its history. Arguments are not shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from offsider.ext.periodic.jobs import PeriodicJob, PeriodicJobs
from offsider.ext.periodic.store import Line
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
    WebVisit,
)

NAME = "periodic"
PATH = "/periodic"
NEXT_RUNS = 10
_TONES = {"tick": "good", "run": "info", "stopped": "warn", "skipped": "bad"}


def tab() -> WebTab:
    """The tab as plain data."""
    return WebTab(
        NAME,
        "Periodic",
        PATH,
        routes={"": every, "/{name}": one},
        actions={"/{name}/run": _acting(run), "/{name}/pause": _acting(pause), "/{name}/resume": _acting(resume)}
        | {"/{name}/remove": _acting(remove)},
        job_facts=job_facts,
    )


def every(visit: WebVisit) -> WebPage:
    """All periodic jobs."""
    rows = [_row(each) for each in PeriodicJobs(visit.config, server=visit.config.server)]
    columns = ["Name", "Cron", "Time zone", "Job", "Next", "Last", "State", ""]
    return WebPage("Periodic", [WebTable("Periodic jobs", columns, rows, "No periodic job is registered.")])


def one(visit: WebVisit) -> WebPage | None:
    """One of them."""
    found = PeriodicJobs(visit.config, server=visit.config.server).find(visit.path("name"))
    if found is None:
        return None
    entry = found.entry
    facts: dict[str, Cell] = {
        "Description": entry.description,
        "Cron": entry.cron,
        "In words": entry.ticks.words,
        "Time zone": entry.tz,
        "Job": entry.job,
        "Queue": entry.queue,
        "Registered in": entry.source,
        "Late by at most": f"{entry.grace_seconds:g} s",
        "State": _state(found),
    }
    runs: list[list[Cell]] = [
        [when.isoformat(sep=" "), WebTime(when.timestamp())] for when in found.next_runs(NEXT_RUNS)
    ]
    history = [_history_row(line, found) for line in found.history()]
    notes = [WebNote("Live processes differ in this job; the latest one is shown.", "warn")]
    return WebPage(
        "Periodic",
        [
            *(notes if found.versions > 1 else []),
            WebFacts("Job", {name: fact for name, fact in facts.items() if fact != ""}),
            WebButtons(_buttons(found)),
            WebTable("Next", ["Time", ""], runs),
            WebTable("History", ["Tick", "", "What", "Job", "By"], history, "Nothing yet."),
        ],
        subject=entry.name,
    )


def job_facts(payload: Mapping[str, Any]) -> Mapping[str, Cell]:
    """Which periodic job a job comes from, and of which tick."""
    told: Any = payload.get("periodic")
    if not isinstance(told, dict):
        return {}
    name, at = (cast("dict[str, Any]", told).get(key) for key in ("name", "at"))
    return {"Periodic job": WebLink(str(name), f"{PATH}/{name}"), "Tick": WebTime(float(at or 0))}


def run(job: PeriodicJob, visit: WebVisit) -> str:
    """Push it now."""
    jid = job.run(by=visit.who or "web")
    return f"Pushed: {jid}" if jid else "Client middleware stopped the job"


def pause(job: PeriodicJob, _visit: WebVisit) -> str:
    """Let its ticks push nothing."""
    job.pause()
    return f"Paused: {job.name}"


def resume(job: PeriodicJob, _visit: WebVisit) -> str:
    """Let it go on."""
    job.resume()
    return f"Goes on: {job.name}"


def remove(job: PeriodicJob, _visit: WebVisit) -> str:
    """Remove one that was added at run time."""
    job.remove()
    return f"Removed: {job.name}"


def _acting(act: Callable[[PeriodicJob, WebVisit], str]) -> Callable[[WebVisit], str]:
    def action(visit: WebVisit) -> str:
        found = PeriodicJobs(visit.config, server=visit.config.server).find(visit.path("name"))
        return "There is no such periodic job, or no longer" if found is None else act(found, visit)

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
    buttons = [WebButton("Run now", f"{path}/run", confirm=f"Push {job.name} now?"), other]
    if job.entry.source == "redis":
        buttons.append(WebButton("Remove", f"{path}/remove", confirm=f"Remove {job.name} for good?", danger=True))
    return buttons


def _history_row(line: Line, job: PeriodicJob) -> list[Cell]:
    what = f"{line.how}: {line.count}" if line.count else line.how
    tick = job.entry.ticks.local(line.tick).isoformat(sep=" ")
    shown = WebLink(line.jid, f"/job/{line.jid}") if line.jid else None
    return [tick, WebTime(line.at), WebBadge(what, _TONES.get(line.how, "")), shown, line.by]
