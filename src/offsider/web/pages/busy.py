"""The page of worker processes: their running jobs, and signals to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from offsider.core.errors import EmbeddedProcess
from offsider.inspector import Process, ProcessSet, Work, WorkSet
from offsider.web.page_request import EVERY, PageRequest
from offsider.web.results import ActionResult, BadRequest, Message, NotFound, Page
from offsider.web.routing import LOOK, Route
from offsider.web.segments import segment
from offsider.web.shown_job import listed_job, shown

PER_PAGE = 100
#: Limits of the page; a process may have more queues and capsules.
MAX_QUEUES = 50
MAX_CAPSULES = 20
EVERYBODY = "all"


def show(request: PageRequest) -> Page:
    only = request.choice("only", ("", "jobs", "processes"), "")
    page = request.number("page")
    processes = list(ProcessSet(request.installation))
    works = list(WorkSet(request.installation))
    pages = max(1, -(-len(works) // PER_PAGE))
    page = min(page, pages)
    first = (page - 1) * PER_PAGE
    data = {
        "only": only,
        "totals": _totals(processes),
        "processes": [_process(process) for process in processes] if only != "jobs" else [],
        "jobs": [_work(request, work) for work in works[first : first + PER_PAGE]] if only != "processes" else [],
        "running": len(works),
        "just_begun": max(0, sum(process.busy for process in processes) - len(works)),
        "page": page,
        "pages": pages,
    }
    return Page("busy", "term.busy", data)


def signal(send: Callable[[Process], None], message: str, request: PageRequest) -> ActionResult:
    """Send a signal to one process, or to all that can be signaled."""
    targets = _targets(request)
    for process in targets:
        try:
            send(process)
        except EmbeddedProcess as error:
            raise BadRequest(str(error)) from error
    identities = [process.identity for process in targets]
    result = Message(message, names=", ".join(identities)) if identities else Message("busy.no_processes")
    return ActionResult("/busy", result, {"processes": identities})


def _question(name: str, request: PageRequest) -> Message:
    if request.path("identity") == EVERYBODY:
        return Message(f"busy.confirm_{name}_all", count=len(_targets(request)))
    return Message(f"busy.confirm_{name}", name=request.path("identity"))


def _targets(request: PageRequest) -> Sequence[Process]:
    identity = request.path("identity")
    if identity == EVERYBODY:
        request.check_every()
        return [process for process in ProcessSet(request.installation) if not process.embedded]
    found = ProcessSet(request.installation).find(identity)
    if found is None:
        raise NotFound("busy.process_gone")
    return [found]


def _totals(processes: Sequence[Process]) -> Mapping[str, float]:
    threads = sum(process.concurrency for process in processes)
    busy = sum(process.busy for process in processes)
    return {
        "processes": len(processes),
        "threads": threads,
        "busy": busy,
        "utilization": busy / threads if threads else 0.0,
        "rss_bytes": sum(process.rss_kilobytes for process in processes) * 1024,
    }


def _process(process: Process) -> Mapping[str, Any]:
    return {
        "identity": process.identity,
        "path": f"/busy/{segment(process.identity)}",
        "hostname": process.hostname,
        "pid": process.pid,
        "tag": process.tag,
        "shard": process.shard,
        "labels": list(process.labels),
        "version": process.version,
        "app_version": process.app_version,
        "leader": process.leader,
        "capsules": _capsules(process),
        "threads": process.concurrency,
        "busy": process.busy,
        "rss_bytes": process.rss_kilobytes * 1024,
        "round_trip_seconds": process.round_trip_microseconds / 1_000_000,
        "started_at": process.started_at,
        "beat_at": process.beat_at,
        "quiet": process.is_quiet,
        "embedded": process.embedded,
    }


def _capsules(process: Process) -> list[Mapping[str, Any]]:
    """Return the capsules with their queues and weights; one without a name for a process that publishes none."""
    if not process.capsules:
        return [_capsule("", process.concurrency, process.queues, process.weights)]
    return [
        _capsule(name, capsule.concurrency, list(capsule.weights), capsule.weights)
        for name, capsule in list(process.capsules.items())[:MAX_CAPSULES]
    ]


def _capsule(name: str, threads: int, queues: Sequence[str], weights: Mapping[str, int]) -> Mapping[str, Any]:
    return {
        "name": name,
        "threads": threads,
        "queues": [{"name": queue, "weight": weights.get(queue, 0)} for queue in queues[:MAX_QUEUES]],
        "more_queues": max(0, len(queues) - MAX_QUEUES),
    }


def _work(request: PageRequest, work: Work) -> Mapping[str, Any]:
    return {
        **shown(work.record, listed_job(work.record, request.options.redact), where="busy", key=work.jid),
        "process": work.process,
        "tid": work.tid,
        "queue": work.queue,
        "queue_path": f"/queues/{segment(work.queue)}" if work.queue else "",
        "run_at": work.run_at,
        "elapsed_seconds": work.elapsed_seconds,
    }


def _route(name: str, send: Callable[[Process], None], message: str, *, asks: bool = True) -> Route:
    question = partial(_question, name) if asks else None
    act = partial(signal, send, message)
    return Route("POST", f"/busy/{{identity}}/{name}", f"process.{name}", act, asks=question, fields=(EVERY,))


ROUTES = [
    Route("GET", "/busy", LOOK, show),
    _route("quiet", Process.quiet, "busy.quieted"),
    _route("stop", Process.stop, "busy.stopped"),
    _route("dump", Process.dump, "busy.dumped", asks=False),
]
