"""The tab of finished jobs: the classes with tracked jobs, the last jobs of a class, and the state of one job."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from offsider.config.web_tab import Cell, WebBadge, WebFacts, WebLink, WebPage, WebTab, WebTable, WebTime
from offsider.ext.results import store
from offsider.ext.results.reader import Reader

if TYPE_CHECKING:
    from offsider.config.web_tab import WebRequest
    from offsider.ext.results.store import Finished

PATH = "/finished"
_MOST = 200
_TONES = {"succeeded": "good", "cancelled": "", "expired": "", "failed": "bad", "dead": "bad"}


def make_tab() -> WebTab:
    return WebTab(
        "results",
        "Finished",
        PATH,
        routes={"": show_classes, "/classes/{name}": show_class, "/jobs/{jid}": show_job},
    )


def show_classes(request: WebRequest) -> WebPage:
    rows: list[list[Cell]] = [
        [WebLink(name, f"{PATH}/classes/{quote(name, safe='')}"), WebTime(at)]
        for name, at in store.classes(request.installation.redis)
    ]
    empty = "No tracked job has finished. Declare jobs with track=True or keep_result=SECONDS."
    return WebPage("Finished", [WebTable("Tracked jobs", ("Job", "Last finished"), rows, empty=empty)])


def show_class(request: WebRequest) -> WebPage | None:
    name = unquote(request.path("name"))
    jobs = store.finished(request.installation.redis, name, _MOST)
    columns = ("Finished", "JID", "State", "Duration", "Worker")
    return WebPage("Finished", [WebTable("Last jobs", columns, [_row(job) for job in jobs])], subject=name)


def show_job(request: WebRequest) -> WebPage | None:
    info = Reader.of(request.installation).info(request.path("jid"))
    if info.state == "untracked":
        return None
    progress = info.progress
    facts: dict[str, Cell] = {
        "Job": info.name,
        "State": _badge(info.state),
        "Since": WebTime(info.changed_at),
        "Duration": _duration(info.duration_ms),
        "Worker": info.process,
        "Progress": "" if progress is None else f"{progress.done:g} of {progress.total or '?'} {progress.message}",
        "Error": f"{info.error_class}: {info.error_message}" if info.error_class else "",
        "Result": info.without_result,
    }
    shown = {name: fact for name, fact in facts.items() if fact}
    return WebPage("Finished", [WebFacts("Facts", shown)], subject=info.jid)


def _row(job: Finished) -> list[Cell]:
    link = WebLink(job.jid, f"{PATH}/jobs/{quote(job.jid, safe='')}")
    return [WebTime(job.at), link, _badge(job.state), _duration(job.duration_ms), job.process]


def _badge(state: str) -> WebBadge:
    return WebBadge(state, _TONES.get(state, "info"))


def _duration(milliseconds: int | None) -> str:
    return "" if milliseconds is None else f"{milliseconds:,} ms"
