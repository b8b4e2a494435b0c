"""The page of callers: which callers and classes fill a queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from offsider.inspector import Queue
from offsider.web.display import MOST_LETTERS, cut
from offsider.web.filters import address
from offsider.web.page_request import PageRequest
from offsider.web.results import Page
from offsider.web.routing import LOOK, Route
from offsider.web.segments import segment

#: Sample sizes; larger ones take longer than a page may.
_SAMPLES = ("1000", "10000")
_MOST_ROWS = 25
_MOST_QUEUES = 100
_LONGEST_FILTER = 100


def index(request: PageRequest) -> Page:
    """Show the longest queue."""
    return _page(request, "")


def show(request: PageRequest) -> Page:
    """Show a selected queue."""
    return _page(request, request.path("name"))


def _page(request: PageRequest, name: str) -> Page:
    most = request.choice("most", _SAMPLES, _SAMPLES[0])
    sizes = [(queue.name, len(queue)) for queue in Queue.all(request.installation)]
    queues = sorted(sizes, key=lambda each: (-each[1], each[0]))
    name = name or next((found for found, _ in queues), "")
    path = f"/callers/{segment(name)}"
    found = Queue(name, request.installation).callers(int(most))
    data = {
        "name": cut(name, MOST_LETTERS),
        "queue_path": f"/queues/{segment(name)}",
        "queues": [_queue(each, size, each == name) for each, size in queues[:_MOST_QUEUES]],
        "most": most,
        "samples": {each: address(path, most=each) for each in _SAMPLES},
        "sampled": found.sampled,
        "total": found.total,
        "by_caller": _rows(name, "caller", found.by_caller),
        "by_class": _rows(name, "name", found.by_class),
    }
    return Page("callers", "callers.title", data, subject=cut(name), tab="/queues")


def _queue(name: str, size: int, current: bool) -> dict[str, Any]:  # noqa: FBT001 - a plain value of the row
    return {"name": cut(name), "size": size, "path": f"/callers/{segment(name)}", "current": current}


def _rows(queue: str, field: str, counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the largest counts first, each with the address of its jobs in the queue."""
    largest = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:_MOST_ROWS]
    path = f"/queues/{segment(queue)}"
    return [
        {
            "value": cut(value, MOST_LETTERS),
            "count": count,
            "path": address(path, **{field: value[:_LONGEST_FILTER]}) if value else "",
        }
        for value, count in largest
    ]


ROUTES = [
    Route("GET", "/callers", LOOK, index),
    Route("GET", "/callers/{name}", LOOK, show),
]
