"""The pages of queues, of the jobs in a queue, and of the callers that fill it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from offsider.config.installation import Installation
from offsider.inspector import JobRecord, ProcessSet, Quarantine, Queue, Stats
from offsider.web.bulk import BulkActions, Verb, bulk_routes
from offsider.web.counters import counters
from offsider.web.display import MAX_LETTERS, cut
from offsider.web.filters import address, fields_of, listed, wanted
from offsider.web.job_lookup import QUEUE, find_in_list, queue_key
from offsider.web.page_request import PageRequest
from offsider.web.results import ActionResult, Message, NotFound, Page
from offsider.web.routing import LOOK, Route
from offsider.web.segments import segment
from offsider.web.shown_job import listed_job, moment, shown

#: A queue with such a name has a page even if it does not exist yet; other names must exist.
_USUAL_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,200}")
_SORTED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "latency": lambda row: (-row["latency_seconds"], row["name"]),
    "size": lambda row: (-row["size"], row["name"]),
    "name": lambda row: row["name"],
}
_ORDERS = ("next", "newest")
VERBS = {
    "quarantine": Verb("done.quarantined", Queue.quarantine, Queue.quarantine_matching),
    "delete": Verb("done.deleted", Queue.delete, Queue.delete_matching),
}
_ACTIONS = {"quarantine": "queue.quarantine", "delete": "queue.clear"}
_SERVERS_SHOWN = 20
#: Sample sizes of callers; larger ones take longer than a page may.
_SAMPLES = ("1000", "10000")
_MAX_ROWS = 25
_MAX_QUEUES = 100
_LONGEST_FILTER = 100


def index(request: PageRequest) -> Page:
    """Show all queues with size, latency and processes."""
    sort = request.choice("sort", tuple(_SORTED), "latency")
    served = _served(request.installation)
    now = request.installation.config.clock.now()
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
        for queue in Stats.read(request.installation).queue_summaries
    ]
    rows.sort(key=_SORTED[sort])
    sorts = {name: address("/queues", sort=name) for name in _SORTED}
    data = {"queues": rows, "sort": sort, "sorts": sorts, "total_size": sum(row["size"] for row in rows)}
    return Page("queues", "term.queues", data)


def show(request: PageRequest) -> Page:
    """Show the jobs of a queue in pages, or the jobs that match a filter."""
    queue = _queue(request)
    path, where = queue_path(queue.name), QUEUE + queue.name
    order = request.choice("order", _ORDERS, "next")
    summary = next((each for each in counters(request.installation).queue_summaries if each.name == queue.name), None)
    served_by = _served(request.installation)[queue.name]
    data: dict[str, Any] = {
        "name": queue.name,
        "path": path,
        "callers_path": f"/callers/{segment(queue.name)}",
        "size": len(queue),
        "latency_seconds": summary.latency_seconds if summary else 0.0,
        "paused": queue.paused,
        "quarantine_size": len(Quarantine(request.installation)),
        "processes": len(served_by),
        "served_by": served_by[:_SERVERS_SHOWN],
        "remove_path": address(f"{path}/all", **fields_of(wanted(request))),
    }

    def row(record: JobRecord) -> dict[str, Any]:
        shown_job = shown(record, listed_job(record, request.options.redact), where=where, key=queue_key(record))
        return shown_job | {"position": record.position, "latency_seconds": record.latency_seconds}

    data |= listed(request, queue, path, size=data["size"], orders=_ORDERS, order=order, row=row)
    return Page("queue", "term.queue", data, subject=queue.name, tab="/queues")


def pause(request: PageRequest) -> ActionResult:
    """Pause a queue."""
    queue = _queue(request)
    queue.pause(by=request.who)
    return ActionResult("/queues", Message("queues.paused", name=queue.name), {"queue": queue.name})


def unpause(request: PageRequest) -> ActionResult:
    """Resume a queue."""
    queue = _queue(request)
    queue.unpause()
    return ActionResult("/queues", Message("queues.resumed", name=queue.name), {"queue": queue.name})


def _bulk(request: PageRequest) -> BulkActions:
    queue = _queue(request)
    find = partial(find_in_list, queue)
    return BulkActions(
        queue, queue_path(queue.name), "term.queue", "/queues", VERBS, find, subject=queue.name, actions=_ACTIONS
    )


def queue_path(name: str) -> str:
    """Return the path of a queue's page."""
    return f"/queues/{segment(name)}"


def _queue(request: PageRequest) -> Queue:
    name = request.path("name")
    queue = Queue(name, request.installation)
    if not _USUAL_NAME.fullmatch(name) and not queue.exists:
        raise NotFound("queues.not_found")
    return queue


def _served(here: Installation) -> defaultdict[str, list[str]]:
    """Return the identities of the processes that serve each queue."""
    served: defaultdict[str, list[str]] = defaultdict(list)
    for process in ProcessSet(here):
        for name in process.serving:
            served[name].append(process.identity)
    return served


def callers(request: PageRequest) -> Page:
    """Show which callers and classes fill a queue; without a name, the longest queue."""
    name = request.parts.get("name", "")
    most = request.choice("most", _SAMPLES, _SAMPLES[0])
    sizes = [(queue.name, len(queue)) for queue in Queue.all(request.installation)]
    queues = sorted(sizes, key=lambda each: (-each[1], each[0]))
    name = name or next((found for found, _ in queues), "")
    path = f"/callers/{segment(name)}"
    found = Queue(name, request.installation).callers(int(most))
    data = {
        "name": cut(name, MAX_LETTERS),
        "queue_path": queue_path(name),
        "queues": [_queue_size(each, size, each == name) for each, size in queues[:_MAX_QUEUES]],
        "most": most,
        "samples": {each: address(path, most=each) for each in _SAMPLES},
        "sampled": found.sampled,
        "total": found.total,
        "by_caller": _rows(name, "caller", found.by_caller),
        "by_class": _rows(name, "name", found.by_class),
    }
    return Page("callers", "callers.title", data, subject=cut(name), tab="/queues")


def _queue_size(name: str, size: int, current: bool) -> dict[str, Any]:  # noqa: FBT001 - a plain value of the row
    return {"name": cut(name), "size": size, "path": f"/callers/{segment(name)}", "current": current}


def _rows(queue: str, field: str, counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the largest counts first, each with the address of its jobs in the queue."""
    largest = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:_MAX_ROWS]
    path = queue_path(queue)
    return [
        {
            "value": cut(value, MAX_LETTERS),
            "count": count,
            "path": address(path, **{field: value[:_LONGEST_FILTER]}) if value else "",
        }
        for value, count in largest
    ]


ROUTES = [
    Route("GET", "/queues", LOOK, index),
    Route("GET", "/queues/{name}", LOOK, show),
    *bulk_routes("/queues/{name}", _bulk, VERBS, _ACTIONS),
    Route("GET", "/callers", LOOK, callers),
    Route("GET", "/callers/{name}", LOOK, callers),
    Route("POST", "/queues/{name}/pause", "queue.pause", pause),
    Route("POST", "/queues/{name}/unpause", "queue.unpause", unpause),
]
