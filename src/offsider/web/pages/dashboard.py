"""The dashboard: current activity, history, slowest queues and server data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from offsider.config.installation import Installation
from offsider.fleet import rules_in_use
from offsider.inspector import Controls, History, Queue, ServerInfo, Stats, TopJobs
from offsider.web.counters import counters, last_hour, looked, server, stranded
from offsider.web.layout import counts
from offsider.web.page_request import PageRequest
from offsider.web.results import Answer, Page, Text
from offsider.web.routing import LOOK, Route
from offsider.web.segments import segment

MAX_QUEUES = 8
MAX_JOBS = 5
MAX_CONTROLS = 10
MAX_DAYS = 180
#: Periods of the history.
DAYS = (7, 30, 90, 180)
#: Fraction of maxmemory that shows a warning.
MUCH_MEMORY = 0.85


def show(request: PageRequest) -> Answer:
    if request.http.method == "HEAD":
        return alive(request)
    here = request.installation
    stats, hour, info = counters(here), last_hour(here), server(here)
    days = request.number("days", default=30, lowest=1, highest=MAX_DAYS)
    data = {
        "stats": {**counts(stats), "processes": stats.processes},
        "rates": {
            "processed": round(stats.processed_per_second, 1),
            "failed": round(stats.failed_per_second, 1),
            "silent_processes": stats.silent_processes,
        },
        "controlled": [control.subject for control in Controls(here).here()[:MAX_CONTROLS]],
        "attention": [request.t(message) for message in _attention(here, stats, info)],
        "stranded": [
            {**asdict(jobs), "path": f"/metrics/{segment(jobs.name)}"} for jobs in stranded(request.installation)
        ],
        "hour": _hour(hour),
        "queues": _slowest(stats),
        "history": {"days": days, "choices": DAYS, **_history(request, days)},
        "server": {name: value for name, value in asdict(info).items() if name != "raw"},
    }
    return Page("dashboard", "layout.dashboard", data)


def alive(request: PageRequest) -> Text:
    """Check with one cheap command that the server is reachable."""
    len(Queue("default", request.installation))
    return Text("")


def _hour(hour: TopJobs) -> Mapping[str, Any]:
    processed, failed = sum(hour.processed.values()), sum(hour.failed.values())
    starts = sorted(hour.processed)
    return {
        "starts_at": starts[0] if starts else hour.starts_at,
        "step_seconds": hour.step_seconds,
        "processed": [hour.processed[at] for at in starts],
        "failed": [hour.failed.get(at, 0) for at in starts],
        "total": processed,
        "failures": failed,
        "error_rate": failed / processed if processed else 0.0,
        "jobs": [
            {
                "name": job.name[:200],
                "path": f"/metrics/{segment(job.name)}",
                "processed": job.processed,
                "failed": job.failed,
                "total_seconds": job.total_seconds,
                "average_seconds": job.average_ms / 1000,
            }
            for job in hour.jobs[:MAX_JOBS]
        ],
    }


def _slowest(stats: Stats) -> list[Mapping[str, Any]]:
    by_latency = sorted(stats.queue_summaries, key=lambda queue: (-queue.latency_seconds, -queue.size, queue.name))
    return [{**asdict(queue), "path": f"/queues/{segment(queue.name)}"} for queue in by_latency[:MAX_QUEUES]]


def _history(request: PageRequest, days: int) -> Mapping[str, Sequence[object]]:
    """Return the history, oldest day first."""
    history = History.read(days, request.installation)
    dates = sorted(history.processed)
    return {
        "dates": dates,
        "processed": [history.processed[day] for day in dates],
        "failed": [history.failed[day] for day in dates],
    }


def _attention(here: Installation, stats: Stats, info: ServerInfo) -> list[str]:
    """Return message ids of problems."""
    found: list[str] = []
    if not stats.processes and stats.enqueued:
        found.append("dashboard.no_processes")
    if info.policy and info.policy != "noeviction":
        found.append("dashboard.evicts")
    if info.persistence == "none":
        found.append("dashboard.no_persistence")
    if info.max_memory_bytes and (info.used_memory_bytes or 0) > MUCH_MEMORY * info.max_memory_bytes:
        found.append("dashboard.memory_full")
    if len(rules_in_use(here)) > 1:
        found.append("dashboard.different_rules")
    # Queues and processes must be from one snapshot.
    if stats.processes and stats.enqueued and looked(here).unserved:
        found.append("dashboard.unserved")
    return found


ROUTES = [Route("GET", "/", LOOK, show)]
