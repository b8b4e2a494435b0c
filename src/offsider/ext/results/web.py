"""The tab of finished jobs: classes with tracked jobs, the last jobs of a class, and the state of one job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from offsider.config.web_tab import (
    Cell,
    WebBadge,
    WebButton,
    WebButtons,
    WebFacts,
    WebLink,
    WebPage,
    WebProgress,
    WebTab,
    WebTable,
    WebTime,
)
from offsider.ext.results import store
from offsider.ext.results.reader import Reader
from offsider.ext.results.store import KEEP_RESULT, TRACK, WAITING

if TYPE_CHECKING:
    from offsider.config.web_tab import Block, WebRequest
    from offsider.ext.results.store import FinishedJob

PATH = "/finished"
_MAX_JOBS = 200
_NOT_ENDED = WAITING | {"running"}
_TONES = {"succeeded": "good", "cancelled": "", "expired": "", "failed": "bad", "dead": "bad"}


def make_tab() -> WebTab:
    return WebTab(
        "results",
        "Finished",
        PATH,
        within="/jobs",
        routes={"": show_classes, "/classes/{name}": show_class, "/jobs/{jid}": show_job},
        actions={"/jobs/{jid}/cancel": cancel},
        job_facts=job_facts,
    )


def show_classes(request: WebRequest) -> WebPage:
    rows: list[list[Cell]] = [
        [WebLink(name, _class_path(name)), WebTime(at)] for name, at in store.classes(request.installation.redis)
    ]
    empty = "No tracked job has finished. Declare jobs with track=True or keep_result=SECONDS."
    return WebPage("Finished", [WebTable("Tracked jobs", ("Job", "Last finished"), rows, empty=empty)])


def show_class(request: WebRequest) -> WebPage | None:
    name = unquote(request.path("name"))
    jobs = store.finished(request.installation.redis, name, _MAX_JOBS)
    columns = ("Finished", "JID", "State", "Duration", "Worker")
    return WebPage("Finished", [WebTable("Last jobs", columns, [_row(job) for job in jobs])], subject=name)


def show_job(request: WebRequest) -> WebPage | None:
    info = Reader.of(request.installation).info(request.path("jid"))
    if info.state == "untracked":
        return None
    progress = info.progress
    facts: dict[str, Cell] = {
        "Job": WebLink(info.name, _class_path(info.name)),
        "State": _badge(info.state),
        "Since": WebTime(info.changed_at),
        "Due": WebTime(info.due_at) if info.due_at else "",
        "Duration": _duration(info.duration_ms),
        "Worker": info.process,
        "Progress": WebProgress(progress.done, progress.total) if progress else "",
        "Message": request.unquoted(progress.message) if progress else "",
        "Error": f"{info.error_class}: {request.unquoted(info.error_message)}" if info.error_class else "",
        "No result": request.unquoted(info.without_result),
    }
    blocks: list[Block] = [WebFacts("Status", {name: fact for name, fact in facts.items() if fact})]
    if info.failures:
        rows: list[list[Cell]] = [
            [str(run.attempt), WebTime(run.failed_at), run.error_class, run.process] for run in info.failures
        ]
        blocks.append(WebTable("Failed runs", ("Attempt", "Failed", "Error", "Worker"), rows))
    if info.state in _NOT_ENDED:
        question = f"Cancel {info.name} {info.jid}? A running job is asked to stop."
        blocks.append(WebButtons([WebButton("Cancel", f"{_job_path(info.jid)}/cancel", confirm=question, danger=True)]))
    return WebPage("Tracked job", blocks, subject=info.jid)


def cancel(request: WebRequest) -> str:
    jid = request.path("jid")
    done = Reader.of(request.installation).cancel(jid, hard=False)
    return f"Cancelled: {jid}" if done else f"The job has ended: {jid}"


def job_facts(payload: Mapping[str, Any]) -> Mapping[str, Cell]:
    """Link the page of a job to the page of its state, if its own options track it."""
    jid = payload.get("jid")
    if not isinstance(jid, str) or not (payload.get(TRACK) or payload.get(KEEP_RESULT)):
        return {}
    return {"Tracked": WebLink("State and progress", _job_path(jid))}


def _row(job: FinishedJob) -> list[Cell]:
    link = WebLink(job.jid, _job_path(job.jid))
    return [WebTime(job.at), link, _badge(job.state), _duration(job.duration_ms), job.process]


def _class_path(name: str) -> str:
    return f"{PATH}/classes/{quote(name, safe='')}"


def _job_path(jid: str) -> str:
    return f"{PATH}/jobs/{quote(jid, safe='')}"


def _badge(state: str) -> WebBadge:
    return WebBadge(state, _TONES.get(state, "info"))


def _duration(milliseconds: int | None) -> str:
    return "" if milliseconds is None else f"{milliseconds:,} ms"
