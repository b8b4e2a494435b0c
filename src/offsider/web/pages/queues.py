"""The queues, and what waits in one of them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from offsider.inspector import JobFilter, JobRecord, ProcessSet, Quarantine, Queue, Stats
from offsider.web.answers import Done, NotFound, Page
from offsider.web.counters import counters
from offsider.web.filters import (
    BUDGET_MS,
    ENOUGH,
    MOST_PAGES,
    PAGE,
    PREVIEW_MS,
    address,
    facets,
    fields_of,
    filter_data,
    pager,
    progress,
    wanted,
)
from offsider.web.places import QUEUE, find_queued, queue_key
from offsider.web.routing import LOOK, Route
from offsider.web.segments import segment
from offsider.web.shown_job import moment, shown
from offsider.web.words import Words, counted

if TYPE_CHECKING:
    from offsider.web.visit import Visit
    from offsider.wiring.config import Config

#: A queue of such a name has a page before anything was pushed to it; one of another name has to exist.
_USUAL_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,200}")
_SORTED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "latency": lambda row: (-row["latency_seconds"], row["name"]),
    "size": lambda row: (-row["size"], row["name"]),
    "name": lambda row: row["name"],
}
_ORDERS = ("next", "newest")
_SERVERS_SHOWN = 20
_LONGEST_CURSOR = 500


def index(visit: Visit) -> Page:
    """Every queue: how much waits in it and how long, and who serves it."""
    sort = visit.choice("sort", tuple(_SORTED), "latency")
    served = _served(visit.config)
    now = visit.config.clock.now()
    rows: list[dict[str, Any]] = [
        {
            "name": queue.name,
            "path": queue_path(queue.name),
            "size": queue.size,
            "latency_seconds": queue.latency_seconds,
            "oldest_at": moment(now - queue.latency_seconds) if queue.size and queue.latency_seconds else None,
            "paused": queue.paused,
            "processes": len(served[queue.name]),
            "served_by": served[queue.name][:_SERVERS_SHOWN],
        }
        for queue in Stats.read(visit.config).queue_summaries
    ]
    rows.sort(key=_SORTED[sort])
    sorts = {name: address("/queues", sort=name) for name in _SORTED}
    data = {"queues": rows, "sort": sort, "sorts": sorts, "total_size": sum(row["size"] for row in rows)}
    return Page("queues", "Queues", data)


def show(visit: Visit) -> Page:
    """What waits in one queue, page by page, or what of it matches a filter."""
    queue, asked = _queue(visit), wanted(visit)
    path = queue_path(queue.name)
    order = visit.choice("order", _ORDERS, "next")
    summary = next((each for each in counters(visit.config).queue_summaries if each.name == queue.name), None)
    served_by = _served(visit.config)[queue.name]
    data: dict[str, Any] = {
        "name": queue.name,
        "path": path,
        "callers_path": f"/callers/{segment(queue.name)}",
        "size": len(queue),
        "latency_seconds": summary.latency_seconds if summary else 0.0,
        "paused": queue.paused,
        "quarantine_size": len(Quarantine(visit.config)),
        "processes": len(served_by),
        "served_by": served_by[:_SERVERS_SHOWN],
        "remove_path": address(f"{path}/all", **fields_of(asked)),
        "order": order,
        "orders": {name: address(path, **fields_of(asked), order=name) for name in _ORDERS},
        "filter": filter_data(path, asked, order=order),
    }
    data |= _listed(visit, queue, order, data["size"]) if asked.empty else _matching(visit, queue, asked, order)
    return Page("queue", "Queue", data, subject=queue.name, tab="/queues")


def _listed(visit: Visit, queue: Queue, order: str, size: int) -> dict[str, Any]:
    page = visit.number("page", default=1, lowest=1, highest=MOST_PAGES)
    records = queue.page((page - 1) * PAGE, PAGE, newest_first=order == "newest")
    path = queue_path(queue.name)
    return {
        "jobs": _rows(visit, queue, records),
        "pager": pager(path, page, size, order=order),
        "search": None,
        "facets": facets(records, path, JobFilter(), order=order),
        "sampled": len(records),
    }


def _matching(visit: Visit, queue: Queue, asked: JobFilter, order: str) -> dict[str, Any]:
    path = queue_path(queue.name)
    cursor = visit.text("cursor", most=_LONGEST_CURSOR)
    chunk = queue.scan(asked, cursor, budget_ms=BUDGET_MS, most=ENOUGH)
    return {
        "jobs": _rows(visit, queue, chunk.entries),
        "pager": None,
        "search": progress(visit, chunk, path, **fields_of(asked), order=order),
        "facets": facets(chunk.entries, path, asked, order=order),
        "sampled": len(chunk.entries),
    }


def _rows(visit: Visit, queue: Queue, records: Iterable[JobRecord]) -> list[dict[str, Any]]:
    where = QUEUE + queue.name
    return [
        shown(record, visit.redacted, where=where, key=queue_key(record, record.position))
        | {"position": record.position, "latency_seconds": record.latency_seconds}
        for record in records
    ]


def pause(visit: Visit) -> Done:
    """Have no worker take jobs from a queue."""
    queue = _queue(visit)
    queue.pause()
    return Done("/queues", Words("Paused: {name}", name=queue.name), {"queue": queue.name})


def unpause(visit: Visit) -> Done:
    """Have workers take jobs from a queue again."""
    queue = _queue(visit)
    queue.unpause()
    return Done("/queues", Words("Goes on: {name}", name=queue.name), {"queue": queue.name})


def ask(visit: Visit) -> Page:
    """What removing all jobs of a queue, or all that match, would remove."""
    queue, asked = _queue(visit), wanted(visit)
    path = queue_path(queue.name)
    preview = queue.preview(asked, budget_ms=PREVIEW_MS)
    size = len(queue)
    data = {
        "verb": "remove",
        "name": queue.name,
        "path": path,
        "matched": size if asked.empty else preview.matched,
        "scanned": size if asked.empty else preview.scanned,
        "complete": asked.empty or preview.complete,
        "total": size,
        "filter": filter_data(path, asked),
        "actions": {verb: f"{path}/all/{verb}" for verb in ("quarantine", "delete")},
        "back": address(path, **fields_of(asked)),
        "days": visit.config.worker.quarantine_days,
    }
    return Page("bulk", "Queue", data, subject=queue.name, tab="/queues")


def delete_all(visit: Visit) -> Done:
    """Delete all jobs that match, for good; without a filter the queue itself."""
    queue, asked = _queue(visit), wanted(visit)
    deleted = queue.clear() if asked.empty else queue.delete_matching(asked)
    back = "/queues" if asked.empty else queue_path(queue.name)
    return Done(back, Words("Deleted: {count}", count=deleted), {"done_to": deleted})


def quarantine_all(visit: Visit) -> Done:
    """Move all jobs that match to the quarantine."""
    queue = _queue(visit)
    moved = queue.quarantine_matching(wanted(visit))
    return Done(queue_path(queue.name), Words("Moved to quarantine: {count}", count=moved), {"done_to": moved})


def delete_selected(visit: Visit) -> Done:
    """Delete the chosen jobs, for good."""
    return _selected(visit, "Deleted: {count}", Queue.delete)


def quarantine_selected(visit: Visit) -> Done:
    """Move the chosen jobs to the quarantine."""
    return _selected(visit, "Moved to quarantine: {count}", Queue.quarantine)


def _selected(visit: Visit, done: str, act: Callable[[Queue, JobRecord], bool]) -> Done:
    queue = _queue(visit)
    keys = visit.selected("key")
    # The last ones first: what is removed then shifts none that is still to be found.
    places = [find_queued(queue, key) for key in reversed(keys)]
    acted = sum(act(queue, place.record) for place in places if place is not None)
    gone = len(keys) - acted
    return Done(queue_path(queue.name), counted(done, acted, gone), {"done_to": acted, "gone": gone})


def queue_path(name: str) -> str:
    """The page of a queue."""
    return f"/queues/{segment(name)}"


def _queue(visit: Visit) -> Queue:
    name = visit.path("name")
    queue = Queue(name, visit.config)
    if not _USUAL_NAME.fullmatch(name) and not queue.exists:
        raise NotFound("There is no queue of this name.")
    return queue


def _served(config: Config) -> defaultdict[str, list[str]]:
    """Queue -> identities of the processes that take jobs from it."""
    served: defaultdict[str, list[str]] = defaultdict(list)
    for process in ProcessSet(config):
        for name in process.queues:
            served[name].append(process.identity)
    return served


ROUTES = [
    Route("GET", "/queues", LOOK, index),
    Route("GET", "/queues/{name}", LOOK, show),
    Route("GET", "/queues/{name}/all", LOOK, ask),
    Route("POST", "/queues/{name}/pause", "queue.pause", pause),
    Route("POST", "/queues/{name}/unpause", "queue.unpause", unpause),
    Route("POST", "/queues/{name}/all/delete", "queue.clear", delete_all),
    Route("POST", "/queues/{name}/all/quarantine", "queue.quarantine", quarantine_all),
    Route(
        "POST", "/queues/{name}/selected/delete", "job.delete", delete_selected, confirm="Delete these jobs for good?"
    ),
    Route("POST", "/queues/{name}/selected/quarantine", "job.quarantine", quarantine_selected),
]
