"""The worker processes, what each of their threads runs, and the signals that can be left for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from offsider.core.errors import EmbeddedProcess
from offsider.inspector import Process, ProcessSet, Work, WorkSet
from offsider.web.answers import BadRequest, Done, NotFound, Page
from offsider.web.routing import LOOK, Route
from offsider.web.segments import segment
from offsider.web.shown_job import shown
from offsider.web.visit import Visit
from offsider.web.words import Words

PER_PAGE = 100
#: A process may serve more queues, in more capsules, than a page can show.
MOST_QUEUES = 50
MOST_CAPSULES = 20
EVERYBODY = "all"


def show(visit: Visit) -> Page:
    only = visit.choice("only", ("", "jobs", "processes"), "")
    page = visit.number("page")
    processes = list(ProcessSet(visit.config))
    works = list(WorkSet(visit.config))
    pages = max(1, -(-len(works) // PER_PAGE))
    page = min(page, pages)
    first = (page - 1) * PER_PAGE
    data = {
        "only": only,
        "totals": _totals(processes),
        "processes": [_process(process) for process in processes] if only != "jobs" else [],
        "jobs": [_work(visit, work) for work in works[first : first + PER_PAGE]] if only != "processes" else [],
        "running": len(works),
        "page": page,
        "pages": pages,
    }
    return Page("busy", "Busy", data)


def quiet(visit: Visit) -> Done:
    return _signalled(visit, Process.quiet, "Asked to take no further jobs: {names}")


def stop(visit: Visit) -> Done:
    return _signalled(visit, Process.stop, "Asked to stop: {names}")


def dump(visit: Visit) -> Done:
    return _signalled(visit, Process.dump, "Asked to write to the log what every thread does: {names}")


def _signalled(visit: Visit, signal: Callable[[Process], None], message: str) -> Done:
    meant = _meant(visit)
    for process in meant:
        try:
            signal(process)
        except EmbeddedProcess as error:
            raise BadRequest(str(error)) from error
    identities = [process.identity for process in meant]
    told = Words(message, names=", ".join(identities)) if identities else Words("No worker process is running.")
    return Done("/busy", told, {"processes": identities})


def _meant(visit: Visit) -> Sequence[Process]:
    identity = visit.path("identity")
    if identity == EVERYBODY:
        return [process for process in ProcessSet(visit.config) if not process.embedded]
    found = ProcessSet(visit.config).find(identity)
    if found is None:
        raise NotFound("This process is gone, or has not shown itself for a minute.")
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
    """Each with its queues and their weights; one without a name for a process that tells of none."""
    if not process.capsules:
        return [_capsule("", process.concurrency, process.queues, process.weights)]
    return [
        _capsule(name, capsule.concurrency, list(capsule.weights), capsule.weights)
        for name, capsule in list(process.capsules.items())[:MOST_CAPSULES]
    ]


def _capsule(name: str, threads: int, queues: Sequence[str], weights: Mapping[str, int]) -> Mapping[str, Any]:
    return {
        "name": name,
        "threads": threads,
        "queues": [{"name": queue, "weight": weights.get(queue, 0)} for queue in queues[:MOST_QUEUES]],
        "more_queues": max(0, len(queues) - MOST_QUEUES),
    }


def _work(visit: Visit, work: Work) -> Mapping[str, Any]:
    return {
        **shown(work.record, visit.redacted, where="busy", key=work.jid),
        "process": work.process,
        "tid": work.tid,
        "queue": work.queue,
        "queue_path": f"/queues/{segment(work.queue)}" if work.queue else "",
        "run_at": work.run_at,
        "elapsed_seconds": work.elapsed_seconds,
    }


ROUTES = [
    Route("GET", "/busy", LOOK, show),
    Route("POST", "/busy/{identity}/quiet", "process.quiet", quiet, confirm="Shall no further jobs be taken there?"),
    Route("POST", "/busy/{identity}/stop", "process.stop", stop, confirm="Shall these workers stop?"),
    Route("POST", "/busy/{identity}/dump", "process.dump", dump),
]
