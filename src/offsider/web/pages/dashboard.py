"""The first page: what is going on now, the days before, the slowest queues, the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from offsider.inspector import History, Queue, RulesInUse, ServerInfo, Stats, TopJobs, rules_in_use
from offsider.inspector.switches import switches_here
from offsider.web.answers import Answer, Page, Text
from offsider.web.counters import counters, last_hour, looked, parked, server
from offsider.web.layout import counts
from offsider.web.routing import LOOK, Route
from offsider.web.segments import segment
from offsider.web.visit import Visit
from offsider.wiring.config import Config

MOST_QUEUES = 8
MOST_JOBS = 5
MOST_SWITCHES = 10
MOST_DAYS = 180
#: Choices of the history.
DAYS = (7, 30, 90, 180)
#: Of the memory that the server may use, so much makes people worry.
MUCH_MEMORY = 0.85


def show(visit: Visit) -> Answer:
    if visit.request.method == "HEAD":
        return alive(visit)
    stats, hour, info = counters(visit.config), last_hour(visit.config), server(visit.config)
    days = visit.number("days", default=30, lowest=1, highest=MOST_DAYS)
    data = {
        "stats": {**counts(stats), "processes": stats.processes},
        "switched": [switch.name for switch in switches_here(visit.config)[:MOST_SWITCHES]],
        "attention": [*_attention(stats, info, rules_in_use(visit.config)), *_unserved(stats, visit.config)],
        "parked": [{**asdict(jobs), "path": f"/metrics/{segment(jobs.name)}"} for jobs in parked(visit.config)],
        "hour": _hour(hour),
        "queues": _slowest(stats),
        "history": {"days": days, "choices": DAYS, **_history(visit, days)},
        "server": asdict(info),
    }
    return Page("dashboard", "Dashboard", data)


def alive(visit: Visit) -> Text:
    """The cheapest answer that says whether the server can be reached."""
    len(Queue("default", visit.config))
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
            for job in hour.jobs[:MOST_JOBS]
        ],
    }


def _slowest(stats: Stats) -> list[Mapping[str, Any]]:
    by_latency = sorted(stats.queue_summaries, key=lambda queue: (-queue.latency_seconds, -queue.size, queue.name))
    return [{**asdict(queue), "path": f"/queues/{segment(queue.name)}"} for queue in by_latency[:MOST_QUEUES]]


def _history(visit: Visit, days: int) -> Mapping[str, Sequence[object]]:
    """The oldest day first, as charts are read."""
    history = History.read(days, visit.config)
    dates = sorted(history.processed)
    return {
        "dates": dates,
        "processed": [history.processed[day] for day in dates],
        "failed": [history.failed[day] for day in dates],
    }


def _attention(stats: Stats, info: ServerInfo, rules: Sequence[RulesInUse]) -> list[str]:
    """What should not be so, in English words that are translated."""
    found: list[str] = []
    if not stats.processes and stats.enqueued:
        found.append("Jobs wait, and no worker process is running.")
    if info.policy and info.policy != "noeviction":
        found.append(
            "The server evicts keys when its memory is full, and jobs with them: set maxmemory-policy noeviction."
        )
    if info.persistence == "none":
        found.append("The server writes nothing to disk: a restart of it loses every job.")
    if info.max_memory_bytes and (info.used_memory_bytes or 0) > MUCH_MEMORY * info.max_memory_bytes:
        found.append("The server's memory is nearly full: it will refuse new jobs.")
    if len(rules) > 1:
        found.append("Programs route jobs by different rules: offsider doctor tells which.")
    return found


def _unserved(stats: Stats, config: Config) -> list[str]:
    found: list[str] = []
    # Of one moment: the queues of one second and the processes of the next do not belong together.
    if stats.processes and stats.enqueued and looked(config).unserved:
        found.append("Jobs wait in queues that nobody serves: offsider doctor tells which.")
    return found


ROUTES = [Route("GET", "/", LOOK, show)]
